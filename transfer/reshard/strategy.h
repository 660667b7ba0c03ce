#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/codec/codec.h"

namespace weft::transfer {

/// How the slices of a resharding reach the devices that want them. All send every (receiver,
/// slice) once.
enum class Strategy : std::uint8_t {
  /// Every receiver gets its own copy from a holder.
  kSendRecv,
  /// A slice wanted by the devices of one host is split among them and gathered inside the host. A
  /// slice wanted on several hosts is sent as in kSendRecv (Alpa's rule: a gather must not cross
  /// hosts).
  kLocalAllgather,
  /// A slice is scattered over all its receivers, which pass their pieces around a ring, across
  /// hosts too.
  kGlobalAllgather,
  /// Chains over hosts as in kBroadcast, always from the first holder, in the order of the slices.
  kBroadcastNaive,
  /// A chunked chain over the receiving hosts, then a fan-out inside each: a byte enters each host
  /// once. The sender is the holder that sends least so far.
  kBroadcast,
  /// Chains whose senders and order are found by randomised greedy search for sets that can run at
  /// once (Zhuang et al., MLSys 2023).
  kBroadcastGreedy,
  /// The same by depth-first search under a true lower bound, beginning with the greedy answer.
  kBroadcastSearch,
  /// Shares from the physical limit's flow solution, trees ordered by spare egress, judged by
  /// simulation. The default.
  kWeft,
};

inline constexpr std::array kStrategies = {Strategy::kSendRecv,        Strategy::kLocalAllgather,
                                           Strategy::kGlobalAllgather, Strategy::kBroadcastNaive,
                                           Strategy::kBroadcast,       Strategy::kBroadcastGreedy,
                                           Strategy::kBroadcastSearch, Strategy::kWeft};

/// "send_recv", "local_allgather", "global_allgather", "broadcast_naive", "broadcast",
/// "broadcast_greedy", "broadcast_search", "weft".
std::string_view to_string(Strategy strategy);
/// Throws Error(kInvalidArgument) that lists the names.
Strategy parse_strategy(std::string_view name);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::Strategy> {
  static constexpr auto kValue = weft::transfer::Strategy::kWeft;
};
