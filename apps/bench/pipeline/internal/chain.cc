// Chains of equal stages with given times and transfers, for sweeps, bubbles and the overhead of
// the runtime.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/bench/pipeline/internal/models.h"
#include "core/base/error.h"

namespace weft::apps {

PipelineModel chain_model(const PipelineModelRequest& request, int meshes) {
  if (request.pass_seconds < 0 || request.transfer_ratio < 0 || request.link_rate_bits <= 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "a chain's pass_seconds {} and transfer_ratio {} cannot be negative, and its "
                "link_rate_bits {} must be positive",
                request.pass_seconds, request.transfer_ratio, request.link_rate_bits);
  }
  if (request.replicas < 1 || request.reduction_ratio < 0 ||
      (request.reduction_ratio > 0 && request.replicas < 2)) {
    throw_error(ErrorCode::kInvalidArgument,
                "a chain's meshes have at least one replica, not {}, and gradients to be summed "
                "(reduction_ratio {}) from two on",
                request.replicas, request.reduction_ratio);
  }
  const int chunks = chunks_of(request), stages = meshes * chunks;
  const int microbatches = request.microbatches > 0 ? request.microbatches : 4 * meshes;
  const double transfer_seconds = request.transfer_ratio * 3 * request.pass_seconds;
  const double bytes = transfer_seconds * request.link_rate_bits / 8 * kLinkGoodput;
  const std::int64_t features = std::max<std::int64_t>(1, std::llround(bytes / sizeof(float)));
  // Bytes that a device sends to all-reduce one byte among r devices: (r - 1) / r for the
  // reduce-scatter and as much for the all-gather.
  const double sent = 2.0 * (request.replicas - 1) / request.replicas;
  const double sum_bytes = request.reduction_ratio * 3 * request.pass_seconds *
                           request.link_rate_bits / 8 * kLinkGoodput / std::max(sent, 1.0);
  const std::int64_t weights =
      std::max<std::int64_t>(1, std::llround(sum_bytes / chunks / sizeof(float)));
  const double seconds = request.pass_seconds / chunks;
  std::vector<EmulatedPiece> pieces;
  for (int stage = 0; stage < stages; ++stage) {
    pieces.push_back({stage, stage == 0 ? std::vector<int>{} : std::vector<int>{stage - 1},
                      stage + 1 < stages ? features : 1, seconds, seconds, seconds, weights});
  }
  PipelineModel model;
  model.name = request.name;
  model.layout = layout_of(request, {meshes, request.replicas, 1},
                           equal_stages(request, meshes, stages), microbatches);
  for (int m = 0; m < meshes; ++m) {
    std::vector<std::string>& hosts = model.layout.meshes[m].hosts;
    hosts.clear();
    for (int r = 0; r < request.replicas; ++r)
      hosts.push_back("host" + std::to_string(m * request.replicas + r));
  }
  model.graphs = emulated_graphs(request.replicas, pieces);
  model.batches = pipeline_batches(model.graphs.train.graph, 0);
  model.hosts = meshes * request.replicas;
  model.devices_per_host = 1;
  model.link_rate_bits = request.link_rate_bits;
  model.rows_per_step = static_cast<double>(microbatches) * request.replicas;
  const std::string devices =
      request.replicas == 1
          ? "one device"
          : fmt::format("{} replicas, whose gradients take {:g} of F + I + W to sum",
                        request.replicas, request.reduction_ratio);
  model.description = fmt::format(
      "{} equal stages on {} meshes of {}, {} microbatches; emulated: F, I and W {:g} ms each a "
      "mesh, {} bytes a "
      "microbatch each way and boundary, {:g} of F + I + W over links of {:g} Mbit/s",
      stages, meshes, devices, microbatches, request.pass_seconds * 1e3,
      features * static_cast<std::int64_t>(sizeof(float)), request.transfer_ratio,
      request.link_rate_bits * 1e-6);
  return model;
}

}  // namespace weft::apps
