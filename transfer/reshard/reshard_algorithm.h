#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/codec/codec.h"

namespace weft::transfer {

/// Algorithm by which the slices of a resharding reach the devices that need them. All deliver
/// every (receiver, slice) once.
enum class ReshardAlgorithm : std::uint8_t {
  /// Point-to-point sends: every receiver gets its own copy from a holder.
  kSendRecv,
  /// All-gather inside hosts. A slice that devices of one host need is split among them and
  /// gathered inside the host. A slice that several hosts need is sent as in kSendRecv (Alpa's
  /// rule: a gather must not cross hosts).
  kLocalAllgather,
  /// All-gather across hosts. A slice is scattered over all its receivers, which pass their pieces
  /// around a ring.
  kGlobalAllgather,
  /// Chains over hosts as in kBroadcast, always from the first holder's host, in the order of the
  /// slices.
  kBroadcastNaive,
  /// Chunked chain over the receiving hosts, then a fan-out inside each, so that a byte enters each
  /// host once. The sender is the least loaded holder.
  kBroadcast,
  /// Chains whose senders and order come from a randomised greedy search for sets that can run
  /// concurrently (Zhuang et al., MLSys 2023).
  kBroadcastGreedy,
  /// Chains from a depth-first search under a true lower bound, starting from the greedy result.
  kBroadcastSearch,
  /// Shares from the physical limit's flow solution, trees ordered by spare egress, compared by
  /// simulation. The default.
  kWeft,
};

inline constexpr std::array kStrategies = {
    ReshardAlgorithm::kSendRecv,        ReshardAlgorithm::kLocalAllgather,
    ReshardAlgorithm::kGlobalAllgather, ReshardAlgorithm::kBroadcastNaive,
    ReshardAlgorithm::kBroadcast,       ReshardAlgorithm::kBroadcastGreedy,
    ReshardAlgorithm::kBroadcastSearch, ReshardAlgorithm::kWeft};

/// Returns the strategy's name: "send_recv", "local_allgather", "global_allgather",
/// "broadcast_naive", "broadcast", "broadcast_greedy", "broadcast_search" or "weft".
std::string_view to_string(ReshardAlgorithm strategy);
/// Returns the strategy called `name`. Throws Error(kInvalidArgument), listing the valid names, for
/// any other name.
ReshardAlgorithm parse_strategy(std::string_view name);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::ReshardAlgorithm> {
  static constexpr auto kValue = weft::transfer::ReshardAlgorithm::kWeft;
};
