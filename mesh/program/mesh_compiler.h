#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mesh/program/compile.h"
#include "mesh/program/emitter.h"

namespace weft::mesh {

/// Hands out the numbers by which all participants know a transfer.
class TransferOps {
 public:
  std::uint32_t next() { return next_++; }
  int count() const { return static_cast<int>(next_); }

 private:
  std::uint32_t next_ = 0;
};

/// Compiles the programs of one mesh: walks its schedule once and emits for all its devices side by side, as they differ only
/// in regions, in who sends and in who adds a bias. Used once.
class MeshCompiler {
 public:
  MeshCompiler(const Partition& partition, int mesh, const std::vector<PlannedEdge>& edges,
               const std::vector<std::uint32_t>& edge_ops, const transfer::Topology& topology, const CompileOptions& options,
               TransferOps& ops);

  /// Emits the actions, in order, with all communication.
  void emit(const std::vector<Action>& actions);
  /// Emits the end of a training step: reduce gradients, global norm, update. `all_devices` are those of all meshes, ascending.
  void emit_update(std::uint32_t norm_op, const transfer::ReshardPlan& norm_plan,
                   const std::vector<transfer::DeviceId>& all_devices);
  /// Waits for what is under way and gives the programs, by rank.
  std::vector<Program> finish();

 private:
  /// Transfers of one mesh edge as this mesh sees it, in the order of its own actions.
  struct Lane {
    std::size_t edge = 0;
    bool sends = false;
    std::vector<int> order;                              ///< Microbatches as consumed (receives only).
    std::size_t posted = 0;                              ///< Receives started so far.
    std::vector<std::optional<std::uint32_t>> transfer;  ///< By rank.
    std::vector<std::vector<std::uint32_t>> handles;     ///< By rank, in order.
  };
  /// Where a parameter's gradient is summed, on every rank.
  struct GradientSum {
    std::vector<std::uint32_t> buffers;  ///< By rank.
    bool direct = false;                 ///< The op that computes it adds it there itself.
    bool started = false;                ///< The first microbatch has written.
    std::vector<int> axes;               ///< Over which it is still partial at the end of the step.
  };

  int num_ranks() const { return mesh_.size(); }
  const LocalValue& local(LocalId id) const { return part_.locals[id.value()]; }
  TensorType local_type(LocalId id, int rank) const;
  std::string value_name(LocalId id) const;

  void make_parameters();
  void make_gradient_sums();
  bool only_gradients(const ComputeStep& step) const;
  void make_inputs();
  void make_lanes(const std::vector<std::uint32_t>& edge_ops);
  void make_step_transfers();
  void make_losses(int microbatches);
  void find_receive_order(const std::vector<Action>& actions);

  void emit_action(const Action& action);
  void emit_step(std::size_t step, int microbatch);
  void emit_compute(const ComputeStep& step, int microbatch);
  void send(LocalId local, int microbatch);
  void post_receives(Lane& lane, std::size_t up_to);
  void add_gradient(LocalId local, int microbatch);
  std::uint32_t instance(LocalId local, int microbatch, int rank);

  // Communication within the mesh. Each gives the transfer by rank.
  std::vector<std::uint32_t> add_all_reduce(const std::string& name, const std::vector<int>& axes,
                                            const std::vector<TensorType>& types);
  std::vector<std::uint32_t> add_reshard(const std::string& name, const TensorType& type, const Spec& from, const Spec& to);
  void reduce_gradients();
  /// Where the whole gradient of a parameter lies, in the parameter's spec.
  std::vector<std::uint32_t> final_gradient(std::size_t index);

  const Partition& partition_;
  const int mesh_index_;
  const DeviceMesh& mesh_;
  const MeshPartition& part_;
  const std::vector<PlannedEdge>& edges_;
  const transfer::Topology& topology_;
  const CompileOptions& options_;
  TransferOps& ops_;

  std::vector<Emitter> emitters_;
  std::vector<std::map<std::pair<LocalId, int>, std::uint32_t>> instances_;  ///< Per rank: (value, microbatch) -> buffer.
  std::vector<std::map<LocalId, std::uint32_t>> parameters_;                 ///< Per rank: parameter -> buffer.
  std::map<LocalId, std::uint32_t> inputs_;                                  ///< Data inputs, equal index on every rank.
  std::vector<Lane> lanes_;
  std::vector<std::vector<std::uint32_t>> step_transfer_;     ///< Per step, per rank; empty for computing steps.
  std::map<LocalId, std::vector<std::size_t>> gradients_of_;  ///< Gradient value -> parameters (indices into part_.parameters).
  std::vector<GradientSum> sums_;                             ///< Per entry of part_.parameters.
  std::map<std::vector<int>, std::pair<std::string, std::uint64_t>> sum_blocks_;  ///< Partial axes -> persistent block.
  std::vector<std::int32_t> losses_;                                              ///< Per rank: persistent block, or -1.
};

}  // namespace weft::mesh
