#include <cmath>
#include <cstdint>

#include "apps/bench/pipeline/internal/models.h"
#include "core/base/error.h"
#include "mesh/schedule/named_schedules.h"

namespace weft::apps {
namespace {

constexpr double kPaperLinkBits = 10e9;

}  // namespace

int chunks_of(const PipelineModelRequest& request) {
  if (request.schedule.empty()) {
    if (request.chunks > 1)
      throw_error(ErrorCode::kInvalidArgument,
                  "{} stages on every mesh need a schedule that says where they lie",
                  request.chunks);
    return 1;
  }
  const mesh::NamedSchedule& named = mesh::find_named_schedule(request.schedule);
  if (request.chunks == 0 || request.chunks == named.chunks) return named.chunks;
  if (!named.any_chunks) {
    throw_error(ErrorCode::kInvalidArgument, "schedule '{}' has {} on every mesh, not {}",
                named.name, named.chunks == 1 ? "one stage" : "two stages", request.chunks);
  }
  return request.chunks;
}

mesh::ParallelConfig layout_of(const PipelineModelRequest& request, const ModelMeshes& meshes,
                               const std::vector<int>& layers, int microbatches) {
  mesh::ParallelConfig layout;
  for (int m = 0; m < meshes.count; ++m) {
    const std::string number = std::to_string(m);
    layout.meshes.push_back(
        {"mesh" + number, {"host" + number}, {{"data", meshes.data}, {"tensor", meshes.tensor}}});
  }
  layout.sharding.axes = {{"batch", {"data"}}, {kTensorParallelAxis, {"tensor"}}};
  if (!request.schedule.empty()) layout.schedule = request.schedule;
  const int chunks = chunks_of(request);
  const auto placement = request.schedule.empty()
                             ? mesh::StagePlacement::kOnePerActor
                             : mesh::find_named_schedule(request.schedule).placement;
  const std::vector<int> mesh_of_stage = mesh::place_stages(placement, meshes.count, chunks);
  if (mesh_of_stage.size() != layers.size()) {
    throw_error(ErrorCode::kInvalidArgument,
                "{} is cut in {} stages, but schedule '{}' has {} on {} meshes; take one that puts "
                "one stage on each",
                request.name, layers.size(), layout.schedule, mesh_of_stage.size(), meshes.count);
  }
  for (std::size_t stage = 0; stage < layers.size(); ++stage)
    layout.stages.push_back({mesh_of_stage[stage], layers[stage]});
  layout.microbatches = microbatches;
  return layout;
}

std::vector<int> equal_stages(const PipelineModelRequest& request, int meshes, int layers) {
  const int stages = meshes * chunks_of(request);
  if (layers % stages != 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "the {} layers of {} cannot be cut in {} equal stages; ask for other chunks",
                layers, request.name, stages);
  }
  return std::vector<int>(stages, layers / stages);
}

double PaperScale::link_rate_bits() const { return kPaperLinkBits * time_scale / byte_scale; }

PaperScale scale_of(const PipelineModelRequest& request, const PaperScale& usual) {
  if (request.device_flops < 0 || request.time_scale < 0 || request.byte_scale < 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "device_flops {}, time_scale {} and byte_scale {} cannot be negative",
                request.device_flops, request.time_scale, request.byte_scale);
  }
  const auto or_usual = [](double asked, double otherwise) {
    return asked > 0 ? asked : otherwise;
  };
  return {or_usual(request.device_flops, usual.device_flops),
          or_usual(request.time_scale, usual.time_scale),
          or_usual(request.byte_scale, usual.byte_scale)};
}

std::int64_t scaled_features(double bytes, const PaperScale& scale) {
  return std::max<std::int64_t>(1, std::llround(bytes / scale.byte_scale / sizeof(float)));
}

}  // namespace weft::apps
