#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::actors {

/// Capacity of one actor's mailbox.
struct MailboxLimits {
  std::uint32_t messages = 1024;
  std::uint64_t bytes = 16u << 20;
};

/// Credit of a sender before the actor's first report.
inline constexpr std::uint32_t kInitialMessages = 64;
inline constexpr std::uint64_t kInitialBytes = 1u << 20;

/// Limit of the calls per actor that a sender holds back while it has no credit.
inline constexpr std::size_t kMaxHeldCalls = 64;

/// Sender's side of flow control by credit, for one actor: counts sent and consumed messages.
///
///   in flight = sent - consumed <= window        (the window is a share of the mailbox)
///
/// A message larger than the window is sent when nothing else is in flight. Not thread-safe.
class SendWindow final {
 public:
  SendWindow() = default;
  SendWindow(std::uint32_t messages, std::uint64_t bytes)
      : window_messages_(messages), window_bytes_(bytes) {}

  bool admits(std::size_t bytes) const {
    const std::uint64_t in_flight = sent_messages_ - consumed_messages_;
    if (in_flight == 0) return true;
    return in_flight < window_messages_ && sent_bytes_ - consumed_bytes_ + bytes <= window_bytes_;
  }
  void sent(std::size_t bytes) {
    ++sent_messages_;
    sent_bytes_ += bytes;
  }
  /// Applies a report of the actor. Returns false, without effect, if it claims more than was sent.
  bool update(std::uint64_t consumed_messages, std::uint64_t consumed_bytes,
              std::uint32_t window_messages, std::uint64_t window_bytes) {
    if (consumed_messages > sent_messages_ || consumed_bytes > sent_bytes_ ||
        consumed_messages < consumed_messages_)
      return false;
    consumed_messages_ = consumed_messages;
    consumed_bytes_ = consumed_bytes;
    window_messages_ = window_messages;
    window_bytes_ = window_bytes;
    return true;
  }
  /// Like the other update(), and leaves the window as it is.
  bool update(std::uint64_t consumed_messages, std::uint64_t consumed_bytes) {
    return update(consumed_messages, consumed_bytes, window_messages_, window_bytes_);
  }
  std::uint64_t in_flight() const { return sent_messages_ - consumed_messages_; }

 private:
  std::uint64_t sent_messages_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t consumed_messages_ = 0;
  std::uint64_t consumed_bytes_ = 0;
  std::uint32_t window_messages_ = kInitialMessages;
  std::uint64_t window_bytes_ = kInitialBytes;
};

}  // namespace weft::actors
