#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "tests/support/fake_world/host_sum.h"
#include "transfer/nccl/device_collectives.h"

namespace weft::test {

/// Operation that a rank has started on its stream.
struct Posted {
  transfer::DeviceCall call;
  bool done = false;
};
using PostedCall = std::shared_ptr<Posted>;  // shared by the group and the rank's stream

/// Members of one fake communicator and their operations. An operation is done when all its members
/// have posted it; its bytes move then. Guarded by the lock of its FakeWorld.
struct FakeGroup {
  explicit FakeGroup(int num_ranks)
      : size(num_ranks),
        device_of_rank(num_ranks, -1),
        aborted(num_ranks),
        collectives(num_ranks) {}

  /// Posts an operation of `rank`, and performs all that are complete. Returns how members'
  /// operations differ; empty if they do not.
  inline std::string post(int rank, const PostedCall& call);
  /// Performs the collective operation `index`, if all ranks have posted it. Returns as post().
  inline std::string complete_collective(std::size_t index);

  const int size;
  std::vector<int> device_of_rank;  ///< -1 if not joined yet.
  std::vector<bool> aborted;
  std::vector<std::vector<PostedCall>> collectives;             ///< Per rank, in order.
  std::map<std::pair<int, int>, std::deque<PostedCall>> sends;  ///< Key: (sender, receiver).
  std::map<std::pair<int, int>, std::deque<PostedCall>> receives;
  std::set<int> used;  ///< Ranks that have enqueued a collective operation.
  /// Pairs (rank, peer): the rank has enqueued a send to or a receive from the peer.
  std::set<std::pair<int, int>> met;
  std::set<int> finalized;
  std::map<std::vector<int>, std::string> shrunk;  ///< Excluded ranks -> id of the rest.
};

inline std::string FakeGroup::post(int rank, const PostedCall& call) {
  using transfer::CallKind;
  if (call->call.kind == CallKind::kSend || call->call.kind == CallKind::kReceive) {
    const bool is_send = call->call.kind == CallKind::kSend;
    const auto pair = is_send ? std::pair(rank, call->call.peer) : std::pair(call->call.peer, rank);
    (is_send ? sends : receives)[pair].push_back(call);
    std::string error;
    auto& sent = sends[pair];
    auto& received = receives[pair];
    while (!sent.empty() && !received.empty()) {
      Posted& from = *sent.front();
      Posted& to = *received.front();
      if (from.call.count == to.call.count && from.call.dtype == to.call.dtype)
        std::memcpy(to.call.to, from.call.from, to.call.count * size_of(to.call.dtype));
      else if (error.empty())
        error = fmt::format("rank {} sends {} elements to rank {}, which receives {}", pair.first,
                            from.call.count, pair.second, to.call.count);
      from.done = to.done = true;
      sent.pop_front();
      received.pop_front();
    }
    return error;
  }
  auto& own = collectives[rank];
  own.push_back(call);
  return complete_collective(own.size() - 1);
}

inline std::string FakeGroup::complete_collective(std::size_t index) {
  using transfer::CallKind;
  std::vector<Posted*> ranks;
  for (const auto& posted : collectives) {
    if (posted.size() <= index) return "";
    ranks.push_back(posted[index].get());
  }
  const transfer::DeviceCall& first = ranks[0]->call;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const transfer::DeviceCall& call = ranks[r]->call;
    ranks[r]->done = true;
    if (call.kind != first.kind || call.dtype != first.dtype || call.op != first.op ||
        call.peer != first.peer || call.count != first.count) {
      return fmt::format(
          "operation {} of a communicator is {} of {} on rank 0 and {} of {} on rank {}", index,
          to_string(first.kind), first.count, to_string(call.kind), call.count, r);
    }
  }
  const std::size_t bytes = first.count * size_of(first.dtype);
  // Computes into a copy, because outputs may overlap inputs.
  std::vector<std::byte> result;
  if (first.kind == CallKind::kBroadcast) {
    const std::byte* root = ranks[first.peer]->call.from;
    result.assign(root, root + bytes);
  } else if (first.kind == CallKind::kAllGather) {
    for (const Posted* rank : ranks)
      result.insert(result.end(), rank->call.from, rank->call.from + bytes);
  } else {
    // Not in rank order, just like a library's sums.
    const std::uint64_t count =
        first.kind == CallKind::kReduceScatter ? first.count * ranks.size() : first.count;
    std::vector<const std::byte*> terms;
    for (std::size_t r = ranks.size(); r-- > 0;) terms.push_back(ranks[r]->call.from);
    result.resize(count * size_of(first.dtype));
    WEFT_CHECK(first.op == transfer::ReduceOp::kSum, "the fake sums only");
    add_up(first.dtype, count, terms, result.data());
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::byte* to = ranks[r]->call.to;
    if (first.kind == CallKind::kReduceScatter) std::memcpy(to, result.data() + r * bytes, bytes);
    else if (to != nullptr) std::memcpy(to, result.data(), result.size());
  }
  return "";
}

}  // namespace weft::test
