// Emulated GPTs of the resharding paper (arXiv 2211.05322), with its layouts and batches. FLOPs by
// its formula, which counts the repeated forward: 96 B S H^2 L (1 + S / 6H) + 6 B S H V.
#include <fmt/format.h>

#include <algorithm>

#include "apps/bench/pipeline/internal/models.h"

namespace weft::apps {
namespace {

struct GptSuite {
  const char* name;
  std::int64_t width;
  int layers;
  ModelMeshes meshes;
  std::int64_t rows;  ///< Sequences per microbatch.
  int microbatches;
  PaperScale usual;
};

/// FLOP/s of a V100 in fp16, net of losses within a mesh. 8 devices make 400 TFLOP/s, the middle of
/// the paper's axis.
constexpr double kDeviceFlops = 50e12;
/// Shaped links allow bursts of 80 kB, so a microbatch's tensors must have some MB. Two processor
/// cores can serve links of 600 Mbit/s.
constexpr GptSuite kGptSuites[] = {
    {"gpt-2.6b", 2560, 32, {2, 2, 2}, 16, 64, {kDeviceFlops, 3.84, 64}},
    {"gpt-2.6b-4", 2560, 32, {4, 2, 1}, 8, 128, {kDeviceFlops, 3.84, 64}},
    {"gpt-1.3b", 2048, 24, {2, 1, 2}, 16, 4, {kDeviceFlops, 3.84, 64}},
};
constexpr double kSequence = 1024, kVocabulary = 51200;
constexpr double kHalf = 2;  ///< Bytes of an fp16 element.

}  // namespace

PipelineModel paper_gpt(const PipelineModelRequest& request) {
  const GptSuite& suite = *std::ranges::find(kGptSuites, request.name, &GptSuite::name);
  const PaperScale scale = scale_of(request, suite.usual);
  const int microbatches = request.microbatches > 0 ? request.microbatches : suite.microbatches;
  const double rows = suite.rows, width = suite.width;
  // forward only
  const double layer_flops = 24 * rows * kSequence * width * width * (1 + kSequence / (6 * width));
  const double head_flops = 2 * rows * kSequence * width * kVocabulary;

  const double mesh_flops = scale.device_flops * suite.meshes.devices();
  const auto seconds = [&](double flops) { return flops / mesh_flops / scale.time_scale; };
  const std::int64_t features = scaled_features(kSequence * width * kHalf, scale);
  std::vector<EmulatedPiece> pieces;
  for (int layer = 0; layer < suite.layers; ++layer) {
    const double forward = seconds(layer_flops);
    pieces.push_back({layer, layer == 0 ? std::vector<int>{} : std::vector<int>{layer - 1},
                      features, forward, 2 * forward, forward});
  }
  const double head = seconds(head_flops);  // not repeated; its logits are not kept
  pieces.push_back({suite.layers - 1, {suite.layers - 1}, 1, head, head, head});

  PipelineModel model;
  model.name = request.name;
  model.layout = layout_of(request, suite.meshes,
                           equal_stages(request, suite.meshes.count, suite.layers), microbatches);
  model.graphs = emulated_graphs(suite.rows, pieces, suite.meshes.tensor);
  model.batches = pipeline_batches(model.graphs.train.graph, 0);
  model.hosts = suite.meshes.count;
  model.devices_per_host = suite.meshes.devices();
  model.link_rate_bits = scale.link_rate_bits();
  model.rows_per_step = rows * microbatches;
  model.flops_per_step = (4 * layer_flops * suite.layers + 3 * head_flops) * microbatches;
  model.time_scale = scale.time_scale;
  model.byte_scale = scale.byte_scale;
  model.description = fmt::format(
      "GPT, {} layers of width {}, {:.1f} TFLOP a microbatch with the repeated forward, {} meshes "
      "of (dp {}, op {}) on a host "
      "each, {} "
      "microbatches of {} sequences of {:g} tokens; emulated: {:g} TFLOP/s a device, {:.1f} MiB "
      "(fp16) a microbatch each way and "
      "boundary; time / {:g}, bytes / {:g}, links {:.1f} Mbit/s for 10 Gbit/s",
      suite.layers, suite.width, model.flops_per_step / microbatches * 1e-12, suite.meshes.count,
      suite.meshes.data, suite.meshes.tensor, microbatches, suite.rows, kSequence,
      scale.device_flops * 1e-12, features * rows * sizeof(float) * scale.byte_scale / (1 << 20),
      scale.time_scale, scale.byte_scale, model.link_rate_bits * 1e-6);
  return model;
}

}  // namespace weft::apps
