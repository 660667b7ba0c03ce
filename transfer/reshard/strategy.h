#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/codec/codec.h"

namespace weft::transfer {

/// How a slice reaches the devices that want it.
enum class Strategy : std::uint8_t {
  /// Every receiver gets its own copy from a holder.
  kSendRecv,
  /// A slice wanted by the devices of one host is split among them and gathered inside the host. A slice wanted on several
  /// hosts is sent as in kSendRecv (Alpa's rule: a gather must not cross hosts).
  kLocalAllgather,
  /// A chunked chain over the receiving hosts, then a fan-out inside each: a byte enters each host once.
  kBroadcast,
};

inline constexpr std::array kStrategies = {Strategy::kSendRecv, Strategy::kLocalAllgather, Strategy::kBroadcast};

/// "send_recv", "local_allgather", "broadcast".
std::string_view to_string(Strategy strategy);
/// Throws Error(kInvalidArgument) that lists the names.
Strategy parse_strategy(std::string_view name);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::Strategy> {
  static constexpr auto kValue = weft::transfer::Strategy::kBroadcast;
};
