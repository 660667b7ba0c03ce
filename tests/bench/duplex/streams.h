#pragma once

#include <cstdint>
#include <vector>

namespace weft::bench {

/// Tensors sent in one direction, one after another. A value.
struct Stream {
  std::uint64_t bytes = 0;      ///< Size of a tensor.
  std::uint32_t count = 0;      ///< 0: this direction is unused.
  std::uint32_t in_flight = 2;  ///< Maximum number of tensors in flight.
};

/// Nanoseconds of the steady clock.
struct Times {
  /// Start time of each outgoing tensor.
  std::vector<std::int64_t> started;
  /// Time at which each incoming tensor was complete.
  std::vector<std::int64_t> ended;
};

/// Carrier of streams: Weft's transfer engine, or plain sockets. Both sides call run() with the
/// same start and with each other's streams. Throws Error.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual Times run(const Stream& out, const Stream& in, std::int64_t start) = 0;
};

}  // namespace weft::bench
