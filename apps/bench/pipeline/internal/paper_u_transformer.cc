// Emulated U-Transformers of the resharding paper (arXiv 2211.05322), with its stages and batches.
// Layers, feature maps and FLOPs are those of the conditional U-Net (apps/models).
#include <fmt/format.h>

#include <algorithm>

#include "apps/bench/pipeline/forward_pieces.h"
#include "apps/bench/pipeline/internal/models.h"
#include "apps/models/conditional_unet.h"

namespace weft::apps {
namespace {

struct UTransformerSuite {
  const char* name;
  std::int64_t channels;
  int devices;  ///< Devices of each of the two meshes.
  int first_layers, second_layers;
};

constexpr UTransformerSuite kUTransformerSuites[] = {
    {"u-transformer-2b", 672, 4, 9, 4},
    {"u-transformer-1b", 480, 2, 8, 5},
};
constexpr std::string_view kBatchSuffix = "-batch";

constexpr std::int64_t kRows = 64;  ///< Samples per microbatch.
constexpr int kMicrobatches = 32;
/// Scale of fp32 on a V100 (peak 15.7 TFLOP/s), net of losses within a mesh. With the second
/// stage's share of the work, 8 devices make at most 57 TFLOP/s, just below 60, the top of the
/// paper's axis. Shaped links allow bursts of 80 kB, so a microbatch's tensors must have some MB.
constexpr PaperScale kUsual{9e12, 6.4, 128};

}  // namespace

PipelineModel paper_u_transformer(const PipelineModelRequest& request) {
  const UTransformerSuite& suite = *std::ranges::find_if(
      kUTransformerSuites,
      [&](const UTransformerSuite& s) { return request.name.starts_with(s.name); });
  const bool split = request.name.ends_with(kBatchSuffix);
  const PaperScale scale = scale_of(request, kUsual);
  const int microbatches = request.microbatches > 0 ? request.microbatches : kMicrobatches;
  const ConditionalUnetGraph real = conditional_unet_graph({.channels = suite.channels}, 1.0);

  // The backward costs twice the forward, in equal parts for inputs and weights. The forward is
  // repeated for the backward, layer by layer.
  const double mesh_flops = scale.device_flops * suite.devices;
  std::vector<EmulatedPiece> pieces;
  double sample_flops = 0, crossing_bytes = 0;
  std::vector<bool> crosses;
  for (const ForwardPiece& piece : forward_pieces(real.graph, real.output)) {
    const double seconds = piece.flops * kRows / mesh_flops / scale.time_scale;
    pieces.push_back({piece.block, piece.inputs,
                      scaled_features(static_cast<double>(piece.elements) * sizeof(float), scale),
                      seconds, 2 * seconds, seconds});
    sample_flops += piece.flops;
    crosses.push_back(false);
    if (piece.block < suite.first_layers) continue;
    for (const int input : piece.inputs) {
      const std::size_t i = input;
      if (pieces[i].block >= suite.first_layers || crosses[i]) continue;
      crosses[i] = true;
      crossing_bytes +=
          static_cast<double>(pieces[i].features * kRows) * sizeof(float) * scale.byte_scale;
    }
  }

  PipelineModel model;
  model.name = request.name;
  model.layout = layout_of(request, {2, split ? suite.devices : 1, split ? 1 : suite.devices},
                           {suite.first_layers, suite.second_layers}, microbatches);
  model.graphs = emulated_graphs(kRows, pieces, split ? 1 : suite.devices);
  model.batches = pipeline_batches(model.graphs.train.graph, 0);
  model.hosts = 2;
  model.devices_per_host = suite.devices;
  model.link_rate_bits = scale.link_rate_bits();
  model.rows_per_step = kRows * microbatches;
  model.flops_per_step = 4 * sample_flops * model.rows_per_step;
  model.time_scale = scale.time_scale;
  model.byte_scale = scale.byte_scale;
  model.description = fmt::format(
      "conditional U-Net, {} channels, {:.3f} B parameters, {:.1f} GFLOP a sample forward, {} + {} "
      "layers on two meshes of {} "
      "({}), {} microbatches of {} samples; emulated: {:.1f} TFLOP/s a device, forward repeated "
      "for the backward, {:.1f} MB a "
      "microbatch each way; time / {:g}, bytes / {:g}, links {:.1f} Mbit/s for 10 Gbit/s",
      suite.channels, real.graph.num_parameter_elements() * 1e-9, sample_flops * 1e-9,
      suite.first_layers, suite.second_layers, suite.devices,
      split ? "activations split by batch" : "weights split, activations replicated", microbatches,
      kRows, scale.device_flops * 1e-12, crossing_bytes * 1e-6, scale.time_scale, scale.byte_scale,
      model.link_rate_bits * 1e-6);
  return model;
}

}  // namespace weft::apps
