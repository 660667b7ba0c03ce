#pragma once

#include <string>
#include <vector>

#include "tests/bench/duplex/channel.h"
#include "tests/bench/duplex/streams.h"

namespace weft::bench {

/// The baseline: blocking TCP sockets, a thread that writes and one that reads, nothing but the
/// tensors' bytes. What is in flight is up to the kernel, but for one tensor at a time: its
/// receiver then answers with a byte on the same connection.
class PlainSockets final : public Carrier {
 public:
  /// kEach: a connection per direction. kOne: both directions share one.
  enum class Connections { kEach, kOne };
  PlainSockets(std::uint32_t self, const std::vector<std::string>& addresses,
               const Channel& channel, Connections connections);
  ~PlainSockets() override;

  /// Only with a connection each can one tensor at a time go.
  Times run(const Stream& out, const Stream& in, std::int64_t start) override;

 private:
  int out_ = -1, in_ = -1;
};

}  // namespace weft::bench
