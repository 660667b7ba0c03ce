#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/placement.h"
#include "core/graph/graph.h"
#include "mesh/partition/partition.h"
#include "mesh/plan/layout_config.h"
#include "mesh/program/checkpoint_programs.h"
#include "mesh/program/compile.h"
#include "mesh/program/kept_state.h"
#include "mesh/program/use_collectives.h"
#include "mesh/schedule/schedule.h"
#include "transfer/topology/network.h"

namespace weft::mesh {

/// The model of an app, for one microbatch: with backward, and forward only for validation (with a
/// batch of its own).
struct ModelGraphs {
  TrainingGraph train;
  Graph validate;
  ValueId validate_loss;
};

/// Where the ranks of each mesh lie: places[mesh][rank].
using MeshPlaces = std::vector<std::vector<actors::HostDevice>>;

/// Where the head would place the meshes on an empty cluster of these hosts (name, devices): for
/// checking and planning without one. Throws Error(kResourceExhausted) or Error(kNotFound) as the
/// head would.
MeshPlaces plan_places(const LayoutConfig& layout,
                       const std::vector<std::pair<std::string, std::uint32_t>>& hosts);

/// Devices and hosts as a plan numbers them: mesh by mesh, rank by rank; the driver is the last
/// device, on a host of its own. A value.
struct DeviceNumbering {
  IndexedVector<MeshId, DeviceMesh> meshes;
  std::vector<std::string> hosts;  ///< By HostId; the last is "driver".
  transfer::Topology topology;     ///< By DeviceId; the last is the driver.

  transfer::DeviceId driver() const { return transfer::DeviceId(topology.num_devices() - 1); }
};
DeviceNumbering number_devices(const LayoutConfig& layout, const MeshPlaces& places);

/// All that is decided before a run starts: devices, stages, specs, transfers and programs. A
/// value; equal inputs give equal plans. The driver takes part in checkpoints only.
struct TrainingPlan {
  LayoutConfig layout;
  std::vector<std::string> hosts;  ///< See DeviceNumbering, as of the topology.
  transfer::Topology topology;
  transfer::Network network;  ///< By HostId: what the plan counts on.
  Partition partition;        ///< Of the training graph.
  Schedule schedule;          ///< What `train` runs; of `auto` what it begins with.
  Compiled train;
  Compiled validate;
  CollectiveUse collectives;  ///< Of `train` and `validate`.
  /// Parameters and moments to the driver and back, a buffer's worth at a time.
  std::vector<CheckpointBatch> checkpoint;
  /// "copy", where batches are gathered from copies; else none.
  std::vector<Program> checkpoint_copy;
  /// Copies were asked for, and memory does not allow them; else empty.
  std::string no_copies_because;
  /// What recovery goes on from; nothing where it is not asked for, or of no use.
  KeptState kept;
  std::string not_kept_because;  ///< As no_copies_because.

  transfer::DeviceId driver() const { return transfer::DeviceId(topology.num_devices() - 1); }
  /// Number of devices that compute.
  int num_devices() const { return static_cast<int>(topology.num_devices()) - 1; }
  bool copies_checkpoints() const { return layout.checkpoint_copies == CheckpointCopies::kYes; }
  /// Those of all programs: of steps and of checkpoints.
  std::vector<const std::vector<Program>*> all_programs() const;
};

/// Makes the plan. Throws Error(kInvalidConfig) when the layers do not fit the model, a shape does
/// not divide, or a device would hold more than the layout's memory; its where() is the key of the
/// run file that it is about, if it is about one.
TrainingPlan make_training_plan(const LayoutConfig& layout, const ModelGraphs& model,
                                const MeshPlaces& places);
/// The same plan for another network than the layout's: its transfers may take other ways, nothing
/// else differs.
TrainingPlan make_training_plan(const LayoutConfig& layout, const ModelGraphs& model,
                                const MeshPlaces& places, const transfer::Network& network);

/// How tensors are split on a mesh, as a file that `layout: FILE.strategy` takes.
std::string write_strategy(const TrainingPlan& plan, MeshId mesh);

/// SHA-256 of the programs of steps: equal where devices compute and exchange the same. Checkpoints
/// do not count.
std::string digest_of_steps(const TrainingPlan& plan);

/// Gives up copies for checkpoints, in a plan none of whose programs is installed.
void drop_checkpoint_copies(TrainingPlan& plan, std::string because);

/// Gives up copies in the memory of hosts, in a plan none of whose programs is installed.
void drop_kept_state(TrainingPlan& plan, std::string because);

/// Whether a running job of one layout can go on with programs of the other: parameters, gradients
/// and data lie at the same places. Throws Error(kInvalidArgument) that names what differs.
void check_same_places(const LayoutConfig& running, const LayoutConfig& other);

}  // namespace weft::mesh
