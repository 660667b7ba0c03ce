#include "mesh/search/internal/lane_transfers.h"

#include <algorithm>
#include <functional>

namespace weft::mesh {

LaneTransfers::LaneTransfers(const SearchRequest& request, const std::vector<EdgeLane>& lanes)
    : lanes_(lanes),
      microbatches_(request.microbatches),
      credits_(request.simulation.credits),
      takes_turns_(!request.costs.nic_of_actor.empty()),
      progress_(lanes.size()),
      tensors_(lanes.size() * microbatches_) {
  if (!takes_turns_) return;
  out_.resize(request.costs.num_nics());
  in_.resize(out_.size());
}

void LaneTransfers::reset() {
  std::ranges::fill(progress_, LaneProgress{});
  turns_.clear();
  std::ranges::fill(out_, InterfaceUse{});
  std::ranges::fill(in_, InterfaceUse{});
}

void LaneTransfers::make(int lane, std::size_t microbatch, double time) {
  tensor_at(lane, microbatch).made = time;
  ++progress_[lane].made;
  if (takes_turns_) queue_transfer(lane);
}

void LaneTransfers::use(int lane, std::size_t microbatch, double time) {
  tensor_at(lane, microbatch).used = time;
  ++progress_[lane].used;
  if (takes_turns_) queue_transfer(lane);
}

double LaneTransfers::ready_to_move(int lane, std::size_t microbatch) {
  Tensor& moved = tensor_at(lane, microbatch);
  const double lane_free = progress_[lane].free_at;
  moved.start = moved.made;
  moved.held_up = HeldUp::kByMaking;
  if (lane_free > moved.start) {
    moved.start = lane_free;
    moved.held_up = HeldUp::kByLane;
  }
  if (credits_ > 0 && microbatch >= credits_ &&
      tensor(lane, microbatch - credits_).used > moved.start) {
    moved.start = tensor(lane, microbatch - credits_).used;
    moved.held_up = HeldUp::kByCredit;
  }
  return moved.start;
}

void LaneTransfers::queue_transfer(int lane) {
  LaneProgress& next = progress_[lane];
  if (next.queued || next.moved == next.made ||
      (credits_ > 0 && next.moved >= next.used + credits_))
    return;
  next.queued = true;
  turns_.push_back({ready_to_move(lane, next.moved), lane});
  std::ranges::push_heap(turns_, std::greater<>());
}

int LaneTransfers::move_in_turn() {
  std::ranges::pop_heap(turns_, std::greater<>());
  const int lane = turns_.back().lane;
  turns_.pop_back();
  LaneProgress& next = progress_[lane];
  const EdgeLane& edge = lanes_[lane];
  Tensor& moved = tensor_at(lane, next.moved);
  // Transfers between actors of one interface do not use it.
  if (edge.out != edge.in) {
    for (const InterfaceUse* side : {&out_[edge.out], &in_[edge.in]}) {
      if (side->free_at <= moved.start) continue;
      moved.start = side->free_at;
      moved.held_up = HeldUp::kByInterface;
      moved.after = side->last;
    }
    const int place = lane * static_cast<int>(microbatches_) + static_cast<int>(next.moved);
    for (InterfaceUse* side : {&out_[edge.out], &in_[edge.in]})
      *side = {moved.start + edge.seconds, place};
  }
  moved.end = next.free_at = moved.start + edge.seconds;
  ++next.moved;
  next.queued = false;
  queue_transfer(lane);
  return lane;
}

}  // namespace weft::mesh
