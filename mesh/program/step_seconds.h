#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "mesh/partition/partition.h"
#include "mesh/program/move_plans.h"
#include "mesh/program/op_time_model.h"
#include "transfer/topology/network.h"

namespace weft::mesh {

/// Duration of a step on its slowest device.
struct StepDuration {
  double seconds = 0;  ///< Time for which the devices or their links work.
  double latency = 0;  ///< Time beyond that until a collective has ended.
  double total() const { return seconds + latency; }
};

/// Seconds of a mesh's steps and collectives. Those of a collective follow from a simulation in
/// which all groups of the mesh start together and nothing else moves. Borrows all arguments.
class StepSeconds {
 public:
  StepSeconds(const Partition& partition, MeshId mesh, const transfer::Topology& topology,
              const transfer::Network& network, const OpTimeModel& seconds)
      : partition_(partition),
        mesh_(partition.meshes[mesh]),
        part_(partition.per_mesh[mesh]),
        topology_(topology),
        network_(network),
        op_seconds_(seconds) {}

  StepDuration of(const Step& step);
  /// Returns the duration of an all-reduce of `type` over these axes.
  StepDuration all_reduce(const TensorType& type, const std::vector<int>& axes);

 private:
  TensorType local_type(LocalId id, int rank) const;
  double compute_seconds(const ComputeStep& step) const;
  StepDuration simulated(const std::vector<GroupPlan>& groups) const;

  const Partition& partition_;
  const DeviceMesh& mesh_;
  const MeshPartition& part_;
  const transfer::Topology& topology_;
  const transfer::Network& network_;
  const OpTimeModel& op_seconds_;
  /// Moves that were simulated before: the layers of a model repeat them.
  struct KnownMove {
    TensorType type;
    Move move;
    StepDuration duration;
  };
  std::vector<KnownMove> moves_;
  std::map<std::pair<std::vector<int>, std::uint64_t>, StepDuration> all_reduces_;
};

}  // namespace weft::mesh
