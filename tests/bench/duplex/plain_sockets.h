#pragma once

#include <string>
#include <vector>

#include "tests/bench/duplex/channel.h"
#include "tests/bench/duplex/streams.h"

namespace weft::bench {

/// Baseline: blocking TCP sockets with a writing and a reading thread, which carry only the
/// tensors' bytes. The kernel decides how much is in flight. With `in_flight` 1, the receiver
/// acknowledges each tensor with a byte on the same connection.
class PlainSockets final : public Carrier {
 public:
  /// kEach: a connection per direction. kOne: both directions share a connection.
  enum class Connections { kEach, kOne };
  PlainSockets(std::uint32_t self, const std::vector<std::string>& addresses,
               const Channel& channel, Connections connections);
  ~PlainSockets() override;

  /// Requires kEach if `in_flight` is 1.
  Times run(const Stream& out, const Stream& in, std::int64_t start) override;

 private:
  int out_ = -1, in_ = -1;
};

}  // namespace weft::bench
