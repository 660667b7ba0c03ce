#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/pipeline/pipeline_batches.h"
#include "mesh/plan/training_plan.h"

namespace weft::apps {

/// A GPT on one mesh whose tensors are split by a layout. Each device is on a host of its own.
struct ShardingCase {
  std::string layout;  ///< "1d", "2d", "3d", "fsdp"; "data": every device has all parameters.
  int devices = 8;
  double tokens_by_width = 1;  ///< M / H: tokens of a microbatch over the width.
  std::int64_t width = 512;
  std::int64_t layers = 4;
  double flops_per_second = 0;  ///< Speed of an emulated device; 0: computing takes no time.
  int microbatches = 1;
  mesh::Duplex duplex = mesh::Duplex::kOff;
};

/// Model, placement and data of a case, for measuring or simulating.
struct ShardingModel {
  mesh::ParallelConfig layout;
  mesh::PlanConditions conditions;
  mesh::ModelGraphs graphs;
  PipelineBatchesConfig batches;
  std::vector<std::pair<std::string, std::uint32_t>> hosts;
};
/// Builds the model of a case. `link_bits` is the rate of each host's link in bits per second, each
/// way; 0: unlimited. Throws Error(kInvalidArgument) if the number of devices does not fit the
/// layout (2d: a square, 3d: a cube) or the tokens cannot be divided.
ShardingModel make_sharding_model(const ShardingCase& c, std::uint64_t link_bits);

/// Returns the bytes per step that a device receives by its program's transfers. Transfers of
/// gradient norms do not count.
double received_bytes(const mesh::Program& program);
/// Returns the bytes per step that the busiest receiving device receives.
double received_bytes(const mesh::TrainingPlan& plan);

/// Returns the seconds of a step by playing the programs on emulated devices of that many FLOP/s;
/// 0: computing takes no time.
double forecast_seconds(const mesh::TrainingPlan& plan, double flops_per_second);
/// Returns the FLOPs of a step on the device that computes most.
double most_flops(const mesh::TrainingPlan& plan);

/// Returns t(1d) / t(3d) of a layer on q^3 devices at M / H = m, if only bytes take time: (q^2 + q
/// + 1) m / (4m + 3) (Bian et al. 2021, with the sums of MK, KN and MN of a transformer layer).
double closed_form_speedup_3d(int q, double m);

}  // namespace weft::apps
