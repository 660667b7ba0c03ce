#pragma once

#include <cstdint>

namespace weft::transfer {

/// Precedes the caller's header in every message of a UcxWire. Little-endian, copied as it is.
struct Prefix {
  enum Kind : std::uint32_t {
    kMessage,
    kHello,    ///< Makes UCX connect now, and says that this end is joined to the receiver's.
    kCredit,   ///< `value` bytes of eager payload have come and left the receiver's buffer.
    kGoodbye,  ///< The sender is closing this connection.
    kArrived,  ///< `value` bytes of eager payload have come, and stay in the receiver's buffer until somebody wants them.
    kLeft,     ///< `value` bytes that kArrived told of have left it.
  };
  std::uint32_t kind = kMessage;
  std::uint32_t sender = 0;
  std::uint64_t value = 0;
};
static_assert(sizeof(Prefix) == 16);

}  // namespace weft::transfer
