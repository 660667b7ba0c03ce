#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config_node.h"
#include "mesh/layouts/layout.h"
#include "mesh/layouts/rules.h"
#include "mesh/program/compile.h"
#include "mesh/schedule/duplex.h"
#include "mesh/schedule/schedule.h"
#include "mesh/schedule/vocabulary.h"
#include "mesh/sharding/device_mesh.h"
#include "mesh/strategy/strategy_text.h"
#include "transfer/reshard/reshard_algorithm.h"

namespace weft::mesh {

/// Entry of the `meshes:` section.
struct MeshConfig {
  std::string name;
  std::vector<std::string> hosts;  ///< Hosts in the order of ranks; empty: all hosts.
  std::vector<MeshAxis> axes;
  /// Absent: layout `rules`, by ParallelConfig::sharding.
  std::optional<LayoutChoice> layout = {};
  /// Strategy instead of a layout: from `layout: FILE.strategy`, or made in C++.
  std::optional<StrategyText> own_strategy = {};
};

/// Entry of `pipeline.stages`: a number of layers on a mesh. Under a schedule with several stages
/// per actor, a mesh may have several.
struct StageConfig {
  int mesh = 0;
  int layers = 1;
  /// True if activations are dropped after the forward and recomputed before the backward.
  bool recompute = false;
};

/// Path of tensors from one GPU to another.
enum class GpuTransfers : std::uint8_t {
  kAuto,  ///< The GPUs' collective library if it reaches all ends, else host memory.
  kHost,  ///< Host memory.
};

/// Sections `meshes:`, `sharding:` and `pipeline:` of a run: where everything is placed and in what
/// order it runs. A value; see PlanConditions for what else a plan depends on.
struct ParallelConfig {
  std::vector<MeshConfig> meshes;
  ShardingRules sharding;
  std::vector<StageConfig> stages;
  std::string schedule = "eager-1f1b";  ///< Name of a schedule, or kAuto.
  int microbatches = 1;                 ///< Number in the file; two halves count once.
  /// Actions that run interleaved. kAuto is decided before a plan is made.
  Duplex duplex = Duplex::kOff;
  std::string duplex_reason;  ///< Why `auto` chose it; empty if the file says it.
  /// Devices that compute the embedding and the output layer.
  VocabularyMode vocabulary = VocabularyMode::kLast;
  transfer::ReshardAlgorithm resharding = transfer::ReshardAlgorithm::kWeft;
  Lowering lowering = Lowering::kLanes;
  int credits = 2;  ///< Receives posted ahead per edge.
  GpuTransfers gpu_transfers = GpuTransfers::kAuto;
  /// Set by benchmarks, not in the file.
  Payload payload = Payload::kTensors;
  /// Measured times by which vocabulary passes are ordered among the other passes; absent: FLOPs.
  std::optional<VocabularyTimes> vocabulary_times;
  /// Bytes that a device may hold; absent: no limit.
  std::optional<std::uint64_t> memory;
  /// Schedule to run instead of the named one: from `schedule: FILE.csv`, or made in C++. Its
  /// actors' stages must be those of the meshes. `duplex` applies to it.
  std::optional<Schedule> own_schedule;

  /// Name of the schedule that measures a run's first steps, then searches a schedule for the
  /// measured times.
  static constexpr std::string_view kAuto = "auto";
  /// Returns whether a schedule will be searched.
  bool searches() const { return schedule == kAuto && !own_schedule; }

  /// Returns the microbatches of a step as the model's graph has them: each half is one.
  int step_microbatches() const { return (duplex == Duplex::kHalves ? 2 : 1) * microbatches; }

  int num_layers() const;
  /// Returns the stage of each layer, ascending.
  std::vector<int> stage_of_layer() const;
  std::vector<int> mesh_of_stage() const;
};

/// Reads the three sections of the document's root. Throws Error(kInvalidConfig) with positions for
/// unknown meshes, axes and names, stages without layers, and meshes without stages.
ParallelConfig parse_layout(const ConfigNode& root);

}  // namespace weft::mesh
