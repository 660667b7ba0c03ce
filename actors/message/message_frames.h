#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/message/message.h"
#include "actors/net/connection.h"

namespace weft::actors {

/// Maximum bytes of a message. Larger arguments belong on the data plane (transfer), not in a call.
inline constexpr std::size_t kMaxMessageBytes = 64u << 20;

/// Appends one message to a connection: one frame, or several with the flag "more follows" if it is
/// longer than a frame. Calls for one connection must not overlap: a message's frames are
/// contiguous.
void append_message(Connection& connection, MessageKind kind, MessageBytes bytes);

/// Reassembles messages from frames. One per connection; loop's thread only.
class MessageAssembler final {
 public:
  struct AssembledMessage {
    MessageKind kind;
    std::span<const std::byte> bytes;  ///< Valid until the next call of add().
  };
  /// Returns the message that this frame completes, or nullopt. Throws Error(kDataLoss) if frames
  /// do not fit together or a message exceeds kMaxMessageBytes.
  std::optional<AssembledMessage> add(const FrameHeader& header, std::span<const std::byte> body);

 private:
  std::vector<std::uint64_t> words_;  // 8-byte elements: Cap'n Proto needs the alignment
  std::size_t bytes_ = 0;
  std::uint8_t kind_ = 0;
  bool open_ = false;
};

}  // namespace weft::actors
