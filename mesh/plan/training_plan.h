#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/resource_allocator.h"
#include "core/graph/graph.h"
#include "mesh/partition/partition.h"
#include "mesh/plan/parallel_config.h"
#include "mesh/plan/plan_conditions.h"
#include "mesh/plan/plan_decisions.h"
#include "mesh/program/checkpoint_programs.h"
#include "mesh/program/compile.h"
#include "mesh/program/in_memory_checkpoint.h"
#include "mesh/program/use_collectives.h"
#include "mesh/schedule/schedule.h"
#include "transfer/topology/network.h"

namespace weft::mesh {

/// Graphs of an app's model for one microbatch: with backward for training, and forward-only for
/// validation, with its own batch.
struct ModelGraphs {
  TrainingGraph train;
  Graph validate;
  ValueId validate_loss;
};

/// Places of the ranks of each mesh: places[mesh][rank].
using MeshPlaces = std::vector<std::vector<actors::HostDevice>>;

/// Returns the places that the head would choose on an empty cluster of these hosts (name,
/// devices), for checks and plans without a cluster. Throws Error(kResourceExhausted) or
/// Error(kNotFound) like the head.
MeshPlaces predict_places(const ParallelConfig& layout,
                          const std::vector<std::pair<std::string, std::uint32_t>>& hosts);

/// Numbering of a plan's devices and hosts: mesh by mesh, rank by rank. The driver is the last
/// device, on its own host. A value.
struct DeviceNumbering {
  IndexedVector<MeshId, DeviceMesh> meshes;
  std::vector<std::string> hosts;  ///< Names by HostId; the last is "driver".
  transfer::Topology topology;     ///< Hosts by DeviceId; the last device is the driver.

  transfer::DeviceId driver() const { return transfer::DeviceId(topology.num_devices() - 1); }
};
DeviceNumbering number_devices(const ParallelConfig& layout, const MeshPlaces& places);

/// Everything decided before a run starts: devices, stages, specs, transfers and programs. A value;
/// equal inputs give equal plans. Layout and conditions of a plan make the same plan again. The
/// driver only takes part in checkpoints.
struct TrainingPlan {
  ParallelConfig layout;           ///< Every mesh states how often it gathers.
  PlanConditions conditions;       ///< No copy mode is kIfMemoryAllows.
  PlanDecisions decisions;         ///< What the layout or the conditions left open, and why.
  std::vector<std::string> hosts;  ///< Names by HostId, see DeviceNumbering.
  transfer::Topology topology;
  transfer::Network network;  ///< Link rates, by HostId, that the plan assumes.
  Partition partition;        ///< Partition of the training graph.
  Schedule schedule;          ///< Schedule of `train`; for `auto`, the first one.
  Compiled train;
  Compiled validate;
  CollectiveAssignment collectives;  ///< Collectives of `train` and `validate`.
  /// Programs that move parameters and moments to the driver and back, in batches of the buffer's
  /// size.
  std::vector<CheckpointBatch> checkpoint;
  /// Programs "copy" if batches are gathered from copies, else empty.
  std::vector<Program> checkpoint_copy;
  /// State copies for recovery; empty if not requested or of no use.
  InMemoryCheckpoint snapshots;

  transfer::DeviceId driver() const { return transfer::DeviceId(topology.num_devices() - 1); }
  /// Returns the number of devices that compute.
  int num_devices() const { return static_cast<int>(topology.num_devices()) - 1; }
  bool copies_checkpoints() const { return conditions.checkpoint_copies == CopyMode::kYes; }
  /// Returns all programs, of steps, checkpoints and state copies.
  std::vector<const std::vector<Program>*> all_programs() const;
};

/// Makes the plan. Throws Error(kInvalidConfig) if the layers do not fit the model, a shape does
/// not divide, or a device would hold more than the layout's memory. where() is the run file's key
/// that the error concerns, if any.
TrainingPlan make_training_plan(const ParallelConfig& layout, const ModelGraphs& model,
                                const MeshPlaces& places, const PlanConditions& conditions = {});

/// Returns the sharding of a mesh as a file for `layout: FILE.strategy`.
std::string write_strategy(const TrainingPlan& plan, MeshId mesh);

/// Returns the SHA-256 of the programs of steps. Equal if devices compute and exchange the same.
/// Ignores checkpoints.
std::string digest_of_steps(const TrainingPlan& plan);

/// Removes copies for checkpoints from a plan before its programs are installed. Records the
/// decision with its reason.
void drop_checkpoint_copies(TrainingPlan& plan, std::string because);

/// Removes copies of the state for recovery from a plan before its programs are installed. Records
/// the decision with its reason.
void drop_snapshots(TrainingPlan& plan, std::string because);

/// Checks that a job of layout `running` can continue with programs of layout `other`: parameters,
/// gradients and data are at the same places. Throws Error(kInvalidArgument) that names the
/// difference.
void check_compatible_layouts(const ParallelConfig& running, const ParallelConfig& other);

}  // namespace weft::mesh
