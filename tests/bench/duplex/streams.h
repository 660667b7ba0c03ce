#pragma once

#include <cstdint>
#include <vector>

namespace weft::bench {

/// Tensors that go one way, one after the other. A value.
struct Stream {
  std::uint64_t bytes = 0;      ///< Of a tensor.
  std::uint32_t count = 0;      ///< 0: nothing goes this way.
  std::uint32_t in_flight = 2;  ///< The next begins when so many before it are not all there yet.
};

/// Nanoseconds of the steady clock.
struct Times {
  /// When a tensor was handed over, by tensor of the stream that goes out.
  std::vector<std::int64_t> started;
  /// When a tensor was here whole, by tensor of the stream that comes in.
  std::vector<std::int64_t> ended;
};

/// What carries streams: Weft's transfer engine, or plain sockets. Both sides call run() with each
/// other's streams and the same start. Throws Error.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual Times run(const Stream& out, const Stream& in, std::int64_t start) = 0;
};

}  // namespace weft::bench
