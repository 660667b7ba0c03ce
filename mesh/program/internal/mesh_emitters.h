#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mesh/program/compile.h"
#include "mesh/program/emitter.h"
#include "mesh/program/move_plans.h"
#include "mesh/sharding/device_mesh.h"

namespace weft::mesh {

/// Allocator of transfer numbers (Transfer::op). Keeps the plans of transfers within a mesh.
class TransferNumbers {
 public:
  std::uint32_t next() { return next_++; }
  template <typename Plan>
  std::uint32_t add_in_mesh(const Plan& plan) {
    in_mesh_.push_back({next_, plan});
    return next_++;
  }
  int count() const { return next_; }
  std::vector<InMeshTransfer> take_in_mesh() { return std::exchange(in_mesh_, {}); }

 private:
  std::uint32_t next_ = 0;
  std::vector<InMeshTransfer> in_mesh_;
};

/// Emitters of one mesh's devices, by rank. Adds the communication among these devices.
///
/// Borrows the emitters: a device of the spanning mesh has one emitter for both of its meshes. An
/// actor of the schedule runs some ranks of the mesh: all, unless the mesh spans others.
class MeshEmitters {
 public:
  /// `actors`: the schedule's actor of each rank. Adds the emitters that `emitters` lacks, for
  /// programs named `program`.
  MeshEmitters(const DeviceMesh& mesh, const std::vector<int>& actors, const std::string& program,
               const transfer::Topology& topology, TransferNumbers& numbers,
               std::map<transfer::DeviceId, Emitter>& emitters);

  int size() const { return mesh_.size(); }
  Emitter& operator[](int rank) const { return *emitters_[rank]; }
  int actor_of(int rank) const { return actor_of_rank_[rank]; }
  const std::vector<int>& all_ranks() const { return all_ranks_; }
  bool has_ranks_of(int actor) const { return ranks_of_actor_.contains(actor); }
  /// Returns the ranks that an actor of this mesh runs, ascending.
  const std::vector<int>& ranks_of(int actor) const { return ranks_of_actor_.at(actor); }

  /// Adds transfers of planned communication to the programs. Returns their indices by rank.
  std::vector<std::uint32_t> add_transfers(const std::string& name, TransferPurpose purpose,
                                           const std::vector<GroupPlan>& plans) const;
  /// Adds the transfers of a move of a tensor of the logical type `type`. Returns their indices by
  /// rank. The move is not a slice.
  std::vector<std::uint32_t> add_move(const std::string& name, const TensorType& type,
                                      const Move& move) const;
  /// Emits a slicing move of a tensor of the logical type `type`. `sources` and `destinations`:
  /// buffers by rank.
  void slice(const std::vector<int>& ranks, const TensorType& type, const Move& move,
             const std::vector<std::uint32_t>& sources,
             const std::vector<std::uint32_t>& destinations) const;
  /// Emits a copy of the part `kept` of `held`. They differ in at most one dimension.
  void slice(int rank, const Region& held, const Region& kept, std::uint32_t source,
             std::uint32_t destination) const;
  void wait_for_all() const;

 private:
  const DeviceMesh& mesh_;
  const transfer::Topology& topology_;
  TransferNumbers& numbers_;
  const std::vector<int> actor_of_rank_;
  std::map<int, std::vector<int>> ranks_of_actor_;
  std::vector<int> all_ranks_;
  std::vector<Emitter*> emitters_;
};

}  // namespace weft::mesh
