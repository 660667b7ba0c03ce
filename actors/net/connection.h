#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/net/address.h"
#include "actors/net/event_loop.h"
#include "actors/net/frame.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/thread.h"

namespace weft::actors {

class Stream;
class Tls;
struct SealKeys;

/// Receives what a Connection reads. Loop's thread only; must not block or throw anything but
/// Error, which closes the connection.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  /// `body` is valid during the call and starts at a multiple of 8 bytes.
  virtual void on_frame(const FrameHeader& header, std::span<const std::byte> body) = 0;
  /// All frames of one read have been handed over: the time to pass on what was batched.
  virtual void on_batch_end() {}
  /// What came cannot be understood; on_closed() follows. What this appends still leaves.
  virtual void on_damaged(const Error& /*damage*/) {}
  /// Exactly once, last; not after stop(). kUnavailable with "connection closed by the other side"
  /// is a plain EOF.
  virtual void on_closed(const Error& reason) = 0;
};

/// A connection that carries frames both ways over a Stream.
///
/// Shared by the link that uses it and by whichever thread is just writing: the last user is
/// unknown. Any thread may append and flush; a thread that flushes writes on the spot what the
/// socket takes, so that one message does not pay for a hand-over between threads, and what was
/// appended meanwhile by others goes along. What the socket does not take is written by the loop's
/// thread when there is room.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(EventLoop& loop, std::unique_ptr<Stream> stream);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Begins reading. The handler must outlive the connection or call stop() first. Loop's thread.
  void start(FrameHandler& handler, std::uint32_t max_body);
  /// Another handler, or another limit, from the next frame on: what a handshake does when it is
  /// over. Loop's thread.
  void hand_over(FrameHandler& handler, std::uint32_t max_body) {
    handler_ = &handler;
    max_body_ = max_body;
  }
  /// Encrypts and authenticates all frames after this one, in both directions: see sealed_stream.h.
  /// Once, while no other thread writes. Throws Error(kUnavailable) where the other side has not
  /// taken what was written before. Loop's thread.
  void seal(const SealKeys& keys);
  /// No further callback. Closes the socket after what is appended has been written or cannot be.
  /// Loop's thread.
  void stop();

  /// The most that may wait for the other side to read it. Beyond that the connection ends: its
  /// user's memory is worth more.
  static constexpr std::size_t kMaxUnsent = std::size_t{256} << 20;

  /// Queues one frame. Any thread. Without effect once closed.
  void append(std::uint8_t kind, std::uint8_t flags, std::span<const std::byte> body);
  /// Writes now, from this thread, as far as the socket takes it without waiting. Any thread.
  void flush();
  /// Has the loop's thread write; many calls before it gets there are one write. Any thread.
  void flush_soon();
  /// Bytes queued and not yet taken by the socket.
  std::size_t unsent_bytes() const;
  /// Blocks until the socket has taken all that is queued, or is closed; at most until `limit`. Any
  /// thread but the loop's.
  void wait_sent(TimePoint limit) const;

  const Address& peer_address() const { return peer_; }
  /// Of the stream; see there. Loop's thread.
  std::span<const std::byte> binding() const;
  bool is_plain_by_mistake() const;
  /// Nobody on the way can read it: it is encrypted, or never leaves the machine.
  bool is_private() const;

 private:
  void read_more();
  void parse();
  void close(const Error& reason);
  void wait_writable();

  EventLoop& loop_;
  std::unique_ptr<Stream> stream_;  // replaced by seal() alone, under mutex_
  const Address peer_;

  // Loop's thread.
  FrameHandler* handler_ = nullptr;
  std::uint32_t max_body_ = kMaxFrameBody;
  std::vector<std::byte> input_;
  std::size_t input_begin_ = 0;
  std::size_t input_end_ = 0;
  std::uint64_t next_input_ = 0;

  mutable Condition sent_;  // all is written, or the connection is closed
  // guards what follows, but writing_ belongs to the thread that set flushing_
  mutable Mutex mutex_;
  bool closed_ = false;
  bool stopping_ = false;  // shut the socket down once everything is written
  bool flushing_ = false;
  bool overflowed_ = false;  // more than kMaxUnsent waited
  std::vector<std::byte> appended_;
  std::vector<std::byte> writing_;
  std::size_t written_ = 0;
  std::uint64_t next_output_ = 0;
  std::atomic<bool> flush_posted_{false};
};

/// Accepts connections. Created and destroyed on any thread but the loop's.
class Listener final {
 public:
  /// Throws Error(kUnavailable) if the address cannot be bound. `on_connection` runs on the loop's
  /// thread. `tls`, which outlives the loop's callbacks, says who has to speak TLS; none: nobody.
  Listener(EventLoop& loop, const Address& address,
           std::function<void(std::shared_ptr<Connection>)> on_connection, Tls* tls = nullptr);
  ~Listener();
  /// With the port that the system chose.
  const Address& address() const { return address_; }

 private:
  struct Impl;
  EventLoop& loop_;
  std::shared_ptr<Impl> impl_;  // shared with the accept that is under way
  Address address_;
};

/// What dial() does when the other side refuses.
enum class Retry { kNever, kUntilDeadline };

/// Connects, trying again with growing pauses (20 ms to 500 ms) if asked to. `on_connected` or
/// `on_failed` runs once, on the loop's thread; the error is kUnavailable and names the address and
/// the system's reason. Any thread. The result cancels: neither runs afterwards.
/// With TLS, that is over when the first bytes have come.
struct DialCallbacks {
  std::function<void(std::shared_ptr<Connection>)> on_connected;
  std::function<void(const Error&)> on_failed;
};
/// How a connection is protected. `certificate`: the SHA-256 of the one that the other side has to
/// present; empty: any, where it proves itself otherwise. Where one is named, TLS is spoken on
/// loopback too.
struct DialTls {
  Tls* tls = nullptr;  ///< Outlives the loop's callbacks; none: plain text.
  std::string certificate;
};
std::function<void()> dial(EventLoop& loop, const Address& address, TimePoint deadline, Retry retry,
                           DialCallbacks callbacks, DialTls protection = {});

}  // namespace weft::actors
