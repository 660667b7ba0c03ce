// GPT of about 4 B parameters of Yeung et al., "Balancing Pipeline Parallelism with Vocabulary
// Parallelism" (arXiv 2411.05288, section 6): 32 layers of width 3072, eight stages. Layers are
// emulated blocks. The embedding and the output layer are a GPT's, so that they can be shared, and
// take the time of their FLOPs.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "apps/bench/pipeline/internal/models.h"
#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/ops/graph_builder.h"

namespace weft::apps {
namespace {

constexpr int kGptLayers = 32, kStagesOfPaper = 8, kPaperMicrobatches = 128;
constexpr double kGptWidth = 3072;
/// Scale at about the speed of the paper's artifact: 52 to 59 % of an A100's 312 TFLOP/s.
constexpr PaperScale kArtifactScale{170e12, 1, 32};
/// Bytes of an element in the paper's runs, and bytes that a layer keeps per token over its width
/// (Korthikanti et al., 2022, with attention that keeps no scores).
constexpr double kElement = 2, kKeptPerToken = 34;

/// Returns the number of layers of each stage: all equal, or fewer on the last by the weight of its
/// output layer, as in the paper's baseline "redis".
std::vector<int> layers_of(const PipelineModelRequest& request) {
  if (!request.redistributed) return equal_stages(request, request.stages, kGptLayers);
  const std::int64_t thousands = request.vocabulary / 1024;
  const int last = thousands <= 32 ? 4 : thousands <= 64 ? 3 : thousands <= 128 ? 2 : 0;
  const int others = request.stages - 1;
  std::vector<int> layers(request.stages, (kGptLayers - last) / others);
  for (int left = (kGptLayers - last) % others; left > 0; --left) ++layers[left];
  layers.back() = last;
  return layers;
}

}  // namespace

PipelineModel vocabulary_gpt(const PipelineModelRequest& asked) {
  PipelineModelRequest request = asked;
  if (request.stages == 0) request.stages = kStagesOfPaper;
  const PaperScale scale = scale_of(request, kArtifactScale);
  const int microbatches = request.microbatches > 0 ? request.microbatches : kPaperMicrobatches;
  // Elements are f32 instead of f16, so half the tokens have as many bytes.
  const double tokens = static_cast<double>(request.sequence);
  const std::int64_t rows =
      std::max<std::int64_t>(1, std::llround(tokens * kElement / sizeof(float) / scale.byte_scale));
  const double flops = 24 * tokens * kGptWidth * kGptWidth * (1 + tokens / (6 * kGptWidth));
  const double seconds = flops / scale.device_flops / scale.time_scale;
  const auto width = static_cast<std::int64_t>(kGptWidth);
  std::vector<int> layers = layers_of(request);
  const bool own_block = layers.back() == 0;  // a stage must have a block

  GraphBuilder b;
  const std::vector<std::string> of_tokens{"batch", "sequence"};
  const ValueId ids = b.input("tokens", {DType::kI32, {1, rows}}, of_tokens);
  const ValueId targets = b.input("targets", {DType::kI32, {1, rows}}, of_tokens);
  b.set_block(0);
  ValueId x = b.embedding(
      b.parameter("embedding", {request.vocabulary, width}, zeros(), {"vocab", "embed"}), ids);
  for (int layer = 0; layer < kGptLayers; ++layer) {
    b.set_block(layer);
    const auto scope = b.scope("h" + std::to_string(layer));
    const ValueId weight = b.parameter("weight", {12 * width * width}, zeros(), {"weights"});
    x = b.emulated_block({x}, weight,
                         {.features = {rows, width},
                          .forward_seconds = seconds,
                          .input_grad_seconds = seconds,
                          .weight_grad_seconds = seconds,
                          .saved_per_row = std::llround(kKeptPerToken / kElement) * rows * width});
  }
  b.set_block(own_block ? kGptLayers : kGptLayers - 1);
  const ValueId logits =
      b.linear(x, b.parameter("head", {width, request.vocabulary}, zeros(), {"embed", "vocab"}));
  const ValueId loss = b.cross_entropy(logits, targets, 1.0);
  const Graph graph = std::move(b).finish();
  if (own_block) layers.back() = 1;

  PipelineModel model;
  model.name = request.name;
  model.layout = layout_of(request, {request.stages, 1, 1}, layers, microbatches);
  model.layout.vocabulary = request.vocabulary_mode;
  model.graphs = {differentiate(graph, loss), graph, loss};
  model.batches = pipeline_batches(graph, request.vocabulary);
  model.hosts = request.stages;
  model.devices_per_host = 1;
  const double bytes = static_cast<double>(rows * width) * sizeof(float);
  const double stage_forward = seconds * kGptLayers / request.stages;
  model.link_rate_bits = request.transfer_ratio > 0
                             ? bytes * 8 / kLinkGoodput / (request.transfer_ratio * stage_forward)
                             : request.link_rate_bits;
  model.rows_per_step = microbatches;
  const double head_flops = 2 * tokens * kGptWidth * static_cast<double>(request.vocabulary);
  model.flops_per_step = 3 * (kGptLayers * flops + head_flops) * microbatches;
  // A row stands for several tokens and takes their time.
  model.device_flops = scale.device_flops / scale.time_scale * static_cast<double>(rows) / tokens;
  model.scaled_weights = false;
  model.time_scale = scale.time_scale;
  model.byte_scale = scale.byte_scale;
  model.description = fmt::format(
      "GPT, {} layers of width {:g}, a vocabulary of {} k, {} stages, {} microbatches of {} "
      "tokens; "
      "emulated: {:g} TFLOP/s a device, {:.2f} MiB a microbatch each way and boundary; time / "
      "{:g}, "
      "bytes / {:g}",
      kGptLayers, kGptWidth, request.vocabulary / 1024, request.stages, microbatches,
      request.sequence, scale.device_flops * 1e-12,
      static_cast<double>(rows * width) * sizeof(float) / (1 << 20), scale.time_scale,
      scale.byte_scale);
  return model;
}

}  // namespace weft::apps
