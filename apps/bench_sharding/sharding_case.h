#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench_pipeline/pipeline_batches.h"
#include "mesh/plan/training_plan.h"

namespace weft::apps {

/// A GPT on one mesh of devices, each on a host of its own, whose tensors are split by a layout. A
/// value.
struct ShardingCase {
  std::string layout;  ///< "1d", "2d", "3d".
  int devices = 8;
  double tokens_by_width = 1;  ///< M / H: tokens of a microbatch over the width.
  std::int64_t width = 512;
  std::int64_t layers = 4;
  double flops_per_second = 0;  ///< Of an emulated device; 0: it takes no time.
};

/// What a benchmark runs of a case, or simulates.
struct ShardingModel {
  mesh::LayoutConfig layout;
  mesh::ModelGraphs graphs;
  PipelineBatchesConfig batches;
  std::vector<std::pair<std::string, std::uint32_t>> hosts;
};
/// `link_bits`: bits per second of each host's link, each way; 0: not limited. Throws
/// Error(kInvalidArgument) unless the layout can have so many devices (2d: a square, 3d: a cube)
/// and the tokens divide.
ShardingModel make_sharding_model(const ShardingCase& c, std::uint64_t link_bits);

/// Bytes that a device receives in a step, by what the programs' transfers carry but for the norms
/// of gradients; of the device that receives most.
double received_bytes(const mesh::TrainingPlan& plan);

/// Seconds of a step by playing the programs on emulated devices of so many FLOP/s; 0: they take no
/// time.
double forecast_seconds(const mesh::TrainingPlan& plan, double flops_per_second);

/// t(1d) / t(3d) of a layer on q^3 devices at M / H = m, if only bytes take time: (q^2 + q + 1) m /
/// (4m + 3) (Bian et al. 2021, with the sums of MK, KN and MN of a transformer layer).
double law_of_3d(int q, double m);

}  // namespace weft::apps
