#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "core/base/sha256.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

/// Proof that a message's sender knows the shared secret, bound to the sender and the receiver.
/// First half of an HMAC.
using SenderProof = std::array<std::byte, 16>;

inline SenderProof proof_of_sender(const Secret& secret, DeviceId sender, DeviceId receiver) {
  const std::array<std::uint32_t, 2> ids = {sender.value(), receiver.value()};
  const Mac mac = hmac_sha256(secret, "weft data", {std::as_bytes(std::span(ids))});
  SenderProof proof{};
  std::copy_n(mac.begin(), proof.size(), proof.begin());
  return proof;
}

/// Header that precedes the caller's header in every message of a UcxWire. Little-endian, copied as
/// is.
///
/// UCX does not identify the sender of a message reliably, so each message carries the proof.
/// Messages of a process that can connect to a worker but does not know the secret are dropped.
struct WireHeader {
  enum Kind : std::uint32_t {
    kMessage,
    kHello,   ///< Makes UCX join the ends now, and shows that this end is joined to the receiver's.
    kCredit,  ///< `value` bytes of eager payload have arrived and left the receiver's buffer.
    kGoodbye,  ///< Notice that the sender closes this connection.
    /// `value` bytes of eager payload have arrived and stay in the receiver's buffer until they are
    /// taken.
    kBuffered,
    kUnbuffered,  ///< `value` bytes reported by kBuffered have left the buffer.
    kGreeting,    ///< Shows that the sender's end exists and that its socket sends. TCP only.
  };
  std::uint32_t kind = kMessage;
  std::uint32_t sender = 0;
  std::uint64_t value = 0;
  SenderProof proof{};

  /// Parses the prefix of a message. Returns nullopt if it is too short or of another version.
  static std::optional<WireHeader> parse(std::span<const std::byte> bytes) {
    WireHeader prefix;
    if (bytes.size() < sizeof(prefix)) return std::nullopt;
    std::memcpy(&prefix, bytes.data(), sizeof(prefix));
    if (prefix.kind > kGreeting) return std::nullopt;
    return prefix;
  }
};
static_assert(sizeof(WireHeader) == 32);

}  // namespace weft::transfer
