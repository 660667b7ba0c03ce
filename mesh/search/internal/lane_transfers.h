#pragma once

#include <compare>
#include <cstddef>
#include <vector>

#include "mesh/search/internal/action_events.h"

namespace weft::mesh {

/// Transfers of a step in simulated time, as the actions complete and use tensors.
///
/// A transfer is computed when its tensor is awaited: an edge's tensors are awaited in production
/// order, so that all dependencies are known then. If interfaces serve in turn, transfers are
/// computed in order of time instead, by move_in_turn().
class LaneTransfers {
 public:
  enum class HeldUp : unsigned char { kByMaking, kByLane, kByCredit, kByInterface };
  struct Tensor {
    double made = 0, start = 0, end = 0;
    double used = 0;  ///< End of the action that uses it.
    HeldUp held_up = HeldUp::kByMaking;
    int after = -1;  ///< Index (see at()) of the interface's previous transfer.
  };

  /// Borrows both.
  LaneTransfers(const SearchRequest& request, const std::vector<EdgeLane>& lanes);

  void reset();
  /// Returns whether interfaces serve one transfer at a time.
  bool takes_turns() const { return takes_turns_; }

  /// Records that a lane's next tensor is complete.
  void make(int lane, std::size_t microbatch, double time);
  /// Returns whether arrival() can be computed now.
  bool is_known(int lane, std::size_t microbatch) const {
    const LaneProgress& known = progress_[lane];
    return (takes_turns_ ? known.moved : known.made) > microbatch;
  }
  /// Returns the time at which a tensor arrives. Call once per tensor, in order.
  double arrival(int lane, std::size_t microbatch) {
    if (!takes_turns_) move(lane, microbatch);
    return tensor(lane, microbatch).end;
  }
  /// Records the end of the action that uses a tensor.
  void use(int lane, std::size_t microbatch, double time);

  bool has_turns() const { return !turns_.empty(); }
  /// Computes the next transfer in order of time. Returns its lane.
  int move_in_turn();

  const Tensor& tensor(int lane, std::size_t microbatch) const {
    return tensors_[lane * microbatches_ + microbatch];
  }
  /// Returns the tensor at index lane * microbatches + microbatch.
  const Tensor& at(std::size_t index) const { return tensors_[index]; }

 private:
  struct LaneProgress {
    std::size_t made = 0;   ///< Number of tensors completed.
    std::size_t moved = 0;  ///< Number of transfers computed in turn.
    std::size_t used = 0;   ///< Number of tensors whose user has ended.
    bool queued = false;    ///< True if the next transfer is in `turns_`.
    double free_at = 0;
  };
  struct InterfaceUse {
    double free_at = 0;
    int last = -1;  ///< Index (see at()) of the last transfer.
  };
  struct Turn {
    double ready = 0;
    int lane = 0;
    friend auto operator<=>(const Turn&, const Turn&) = default;
  };

  Tensor& tensor_at(int lane, std::size_t microbatch) {
    return tensors_[lane * microbatches_ + microbatch];
  }
  /// Returns the time at which a completed tensor can move, interfaces aside.
  double ready_to_move(int lane, std::size_t microbatch);
  /// Computes a transfer without interfaces.
  void move(int lane, std::size_t microbatch) {
    tensor_at(lane, microbatch).end = progress_[lane].free_at =
        ready_to_move(lane, microbatch) + lanes_[lane].seconds;
  }
  /// Queues the lane's next tensor if all its dependencies are known.
  void queue_transfer(int lane);

  const std::vector<EdgeLane>& lanes_;
  const std::size_t microbatches_;
  const std::size_t credits_;
  const bool takes_turns_;
  std::vector<LaneProgress> progress_;  ///< By lane.
  std::vector<Tensor> tensors_;
  std::vector<InterfaceUse> out_, in_;
  std::vector<Turn> turns_;  ///< Min-heap of pending transfers by time.
};

}  // namespace weft::mesh
