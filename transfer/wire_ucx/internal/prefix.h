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

/// What the sender of a message shows: that it knows the secret of those who may send here, and
/// which device it is for whom. Half an HMAC.
using SenderProof = std::array<std::byte, 16>;

inline SenderProof proof_of_sender(const Secret& secret, DeviceId sender, DeviceId receiver) {
  const std::array<std::uint32_t, 2> ids = {sender.value(), receiver.value()};
  const Mac mac = hmac_sha256(secret, "weft data", {std::as_bytes(std::span(ids))});
  SenderProof proof{};
  std::copy_n(mac.begin(), proof.size(), proof.begin());
  return proof;
}

/// Precedes the caller's header in every message of a UcxWire. Little-endian, copied as it is.
///
/// UCX does not say reliably whom a message comes from, so each one carries the proof: who can
/// connect to a worker, but does not know the secret, is heard by nobody.
struct Prefix {
  enum Kind : std::uint32_t {
    kMessage,
    kHello,    ///< Makes UCX connect now, and says that this end is joined to the receiver's.
    kCredit,   ///< `value` bytes of eager payload have come and left the receiver's buffer.
    kGoodbye,  ///< The sender is closing this connection.
    /// `value` bytes of eager payload have come, and stay in the receiver's buffer until somebody
    /// wants them.
    kArrived,
    kLeft,  ///< `value` bytes that kArrived told of have left it.
  };
  std::uint32_t kind = kMessage;
  std::uint32_t sender = 0;
  std::uint64_t value = 0;
  SenderProof proof{};

  /// Nothing when the bytes do not begin with one of this version.
  static std::optional<Prefix> parse(std::span<const std::byte> bytes) {
    Prefix prefix;
    if (bytes.size() < sizeof(prefix)) return std::nullopt;
    std::memcpy(&prefix, bytes.data(), sizeof(prefix));
    if (prefix.kind > kLeft) return std::nullopt;
    return prefix;
  }
};
static_assert(sizeof(Prefix) == 32);

}  // namespace weft::transfer
