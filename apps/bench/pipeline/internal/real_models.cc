// Models computed on CPU devices, with deterministic pseudo-random batches.
#include <fmt/format.h>

#include "apps/bench/pipeline/internal/models.h"
#include "apps/models/gpt_graph.h"
#include "apps/models/u_transformer_graph.h"
#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/ops/op_definition.h"

namespace weft::apps {
namespace {

constexpr ModelMeshes kTwoDevices{2, 1, 1};
constexpr std::int64_t kManyTokens = 16 * 1024;

/// Fills in all fields but description and layout.
void complete(PipelineModel& model, const Graph& graph, ValueId loss, std::int64_t rows,
              std::int64_t limit) {
  model.emulated = false;
  model.graphs = {differentiate(graph, loss), graph, loss};
  model.batches = pipeline_batches(graph, limit);
  model.hosts = kTwoDevices.count;
  model.devices_per_host = 1;
  model.rows_per_step = rows * model.layout.microbatches;
  for (const Node& node : model.graphs.train.graph.nodes()) {
    model.flops_per_step += cost(model.graphs.train.graph, node).flops * model.layout.microbatches;
  }
}

double millions(const Graph& graph) { return graph.num_parameter_elements() * 1e-6; }

}  // namespace

PipelineModel real_gpt(const PipelineModelRequest& request) {
  // The peer in tests/bench/peers has the same model: separate output layer, learned positions,
  // tanh GELU.
  const GptShape shape{
      .layers = 8, .width = 384, .heads = 6, .sequence = 256, .batch = 4, .vocabulary = 1024};
  const int microbatches = request.microbatches > 0 ? request.microbatches : 8;
  PipelineModel model;
  model.name = request.name;
  model.layout = layout_of(request, kTwoDevices,
                           equal_stages(request, kTwoDevices.count, shape.layers), microbatches);
  const GptGraph gpt = gpt_graph(shape, 1.0 / (microbatches * shape.batch * shape.sequence));
  complete(model, gpt.graph, gpt.loss, shape.batch, shape.vocabulary);
  model.description = fmt::format(
      "GPT, {} layers of width {} in {} stages, {} heads, vocabulary {}, {:.2f} M parameters, two "
      "meshes of one device, {} "
      "microbatches of {} sequences of {} tokens; computed in fp32",
      shape.layers, shape.width, model.layout.stages.size(), shape.heads, shape.vocabulary,
      millions(gpt.graph), microbatches, shape.batch, shape.sequence);
  return model;
}

PipelineModel real_vocabulary_gpt(const PipelineModelRequest& request) {
  const GptShape shape{.layers = 4,
                       .width = 256,
                       .heads = 4,
                       .sequence = 128,
                       .batch = 2,
                       .vocabulary = kManyTokens};
  const int microbatches = request.microbatches > 0 ? request.microbatches : 16;
  PipelineModel model;
  model.name = request.name;
  const ModelMeshes meshes{request.stages > 0 ? request.stages : 2, 1, 1};
  model.layout =
      layout_of(request, meshes, equal_stages(request, meshes.count, shape.layers), microbatches);
  model.layout.vocabulary = request.vocabulary_mode;
  const GptGraph gpt = gpt_graph(shape, 1.0 / (microbatches * shape.batch * shape.sequence));
  complete(model, gpt.graph, gpt.loss, shape.batch, shape.vocabulary);
  model.hosts = meshes.count;
  model.description = fmt::format(
      "GPT, {} layers of width {} in {} stages, vocabulary {}, {:.2f} M parameters, {} "
      "microbatches "
      "of {} sequences of {} tokens; computed in fp32",
      shape.layers, shape.width, model.layout.stages.size(), shape.vocabulary, millions(gpt.graph),
      microbatches, shape.batch, shape.sequence);
  return model;
}

PipelineModel real_u_transformer(const PipelineModelRequest& request) {
  const UTransformerShape shape{.height = 112,
                                .width = 96,
                                .classes = 8,
                                .levels = 3,
                                .channels = 32,
                                .group_size = 4,
                                .head_dim = 16,
                                .attended_skips = 2,
                                .batch = 4};
  const int microbatches = request.microbatches > 0 ? request.microbatches : 8;
  PipelineModel model;
  model.name = request.name;
  // First mesh: levels down and the bottom. Second mesh: levels up.
  const std::vector<int> layers{static_cast<int>(shape.levels) + 1, static_cast<int>(shape.levels)};
  model.layout = layout_of(request, kTwoDevices, layers, microbatches);
  const double pixels = microbatches * shape.batch * shape.height * shape.width;
  const UTransformerGraph unet = u_transformer_graph(shape, 1.0 / pixels);
  complete(model, unet.graph, unet.loss, shape.batch, shape.classes);
  model.description = fmt::format(
      "U-Transformer, {} levels from {} channels, {} x {} pixels, {} classes, {} of {} skips "
      "attended, {:.2f} M parameters, {} + "
      "{} "
      "blocks on two meshes of one device, {} microbatches of {} pictures; computed in fp32",
      shape.levels, shape.channels, shape.height, shape.width, shape.classes, shape.attended_skips,
      shape.levels, millions(unet.graph), layers[0], layers[1], microbatches, shape.batch);
  return model;
}

}  // namespace weft::apps
