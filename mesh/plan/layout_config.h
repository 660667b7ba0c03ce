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
#include "mesh/schedule/schedule.h"
#include "mesh/schedule/vocabulary.h"
#include "mesh/sharding/device_mesh.h"
#include "mesh/strategy/strategy_text.h"
#include "transfer/nccl/device_path.h"
#include "transfer/reshard/strategy.h"

namespace weft::mesh {

/// One entry of the `meshes:` section.
struct MeshConfig {
  std::string name;
  std::vector<std::string> hosts;  ///< In the order in which ranks fill them; empty: all hosts.
  std::vector<MeshAxis> axes;
  /// Absent: `rules`, by LayoutConfig::sharding.
  std::optional<LayoutChoice> layout = {};
  /// Instead of a layout: `layout: FILE.strategy`, or made in C++.
  std::optional<StrategyText> own_strategy = {};
};

/// One entry of `pipeline.stages`: so many layers of the model on this mesh. A mesh may have
/// several stages, under a schedule that runs several per actor.
struct StageConfig {
  int mesh = 0;
  int layers = 1;
  /// Activations are dropped after the forward and computed again before the backward.
  bool recompute = false;
};

/// How tensors go from one GPU to another.
enum class GpuTransfers : std::uint8_t {
  kAuto,  ///< By the GPUs' own library wherever it reaches all ends, else through host memory.
  kHost,  ///< Through host memory.
};

/// Whether devices copy what a checkpoint holds into memory of their host, so that steps go on
/// while it is written.
enum class CheckpointCopies : std::uint8_t {
  kNo,              ///< Training stands still meanwhile.
  kIfMemoryAllows,  ///< See TrainingPlan::no_copies_because.
  kYes,
};

/// The sections `meshes:`, `sharding:` and `pipeline:` of a run: where everything lies and in what
/// order it runs. A value.
struct LayoutConfig {
  std::vector<MeshConfig> meshes;
  ShardingRules sharding;
  std::vector<StageConfig> stages;
  std::string schedule = "eager-1f1b";  ///< A named one, or kAuto.
  int microbatches = 1;
  /// Who computes the embedding and the output layer.
  VocabularyMode vocabulary = VocabularyMode::kLast;
  transfer::Strategy resharding = transfer::Strategy::kWeft;
  Lowering lowering = Lowering::kLanes;
  int credits = 2;  ///< Receives posted ahead per edge.
  GpuTransfers gpu_transfers = GpuTransfers::kAuto;
  /// Not read from the file: benchmarks set it.
  Payload payload = Payload::kTensors;
  /// By which vocabulary passes, and what they wait for, are put in order; absent: by their FLOPs.
  /// Who has measured it fills it in.
  std::optional<VocabularyTimes> vocabulary_times;
  /// Bytes that a device may hold; absent: any number.
  std::optional<std::uint64_t> memory;
  /// What the driver holds of a checkpoint at a time. Who reads `checkpoint:` fills it in.
  std::uint64_t checkpoint_buffer = std::uint64_t{256} << 20;
  /// Who reads `checkpoint:` fills it in; a plan has what was decided, and plans that are made from
  /// its layout decide alike.
  CheckpointCopies checkpoint_copies = CheckpointCopies::kNo;
  /// The same of copies of the state in the memory of other hosts, see KeptState. Who reads
  /// `recovery:` fills it in.
  CheckpointCopies kept_copies = CheckpointCopies::kNo;
  /// Runs instead of the named schedule, if there is one: `schedule: FILE.csv`, or made in C++. The
  /// actors' stages must be those of the meshes.
  std::optional<Schedule> own_schedule;
  /// Bytes per second of each host's link, each way; not a section of its own: who reads `cluster:`
  /// fills it in.
  std::map<std::string, double> links;
  /// Where the devices compute, by DeviceId; who knows fills it in. Empty: none is a GPU.
  std::vector<transfer::DevicePlace> device_places;

  /// Whether GPUs give equal results for equal inputs: each of them, and what they add up among
  /// themselves, which is then added in rank order, as through host memory. Who reads `cluster:`
  /// fills it in.
  bool deterministic = true;

  /// Of a host that is not in `links`: 10 Gbit/s.
  static constexpr double kUnknownLink = 1.25e9;

  /// The schedule of a run that measures its first steps, then searches a schedule for what it has
  /// measured.
  static constexpr std::string_view kAuto = "auto";
  /// Whether a schedule is still to be searched.
  bool searches() const { return schedule == kAuto && !own_schedule; }

  int num_layers() const;
  /// Stage of each layer, ascending.
  std::vector<int> stage_of_layer() const;
  std::vector<int> mesh_of_stage() const;
};

/// Reads the three sections of the document's root. Throws Error(kInvalidConfig) with places for
/// unknown meshes, axes and names, stages without layers, and meshes without stages.
LayoutConfig parse_layout(const ConfigNode& root);

}  // namespace weft::mesh
