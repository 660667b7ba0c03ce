#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/message/message.h"
#include "actors/net/connection.h"

namespace weft::actors {

/// The longest message: larger arguments belong on the data plane (transfer), not in a call.
inline constexpr std::size_t kMaxMessageBytes = 64u << 20;

/// Appends one message to a connection: one frame, or several with the flag "more follows" when it
/// is longer than a frame. Calls for one connection must not overlap: the frames of a message are
/// contiguous.
void append_message(Connection& connection, MessageKind kind, std::span<const std::byte> bytes);

/// Puts messages together again. One per connection; loop's thread only.
class MessageAssembler final {
 public:
  struct Message {
    MessageKind kind;
    std::span<const std::byte> bytes;  ///< Valid until the next call of add().
  };
  /// The message that this frame completes, or nothing yet. Throws Error(kDataLoss) for frames that
  /// do not fit together or a message above kMaxMessageBytes.
  std::optional<Message> add(const FrameHeader& header, std::span<const std::byte> body);

 private:
  std::vector<std::uint64_t> words_;  // 8-byte elements: the reader needs the alignment
  std::size_t bytes_ = 0;
  std::uint8_t kind_ = 0;
  bool open_ = false;
};

}  // namespace weft::actors
