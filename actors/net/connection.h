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

class ByteStream;
class TlsPolicy;
struct StreamKeys;

/// Receiver of the frames of a Connection. Loop's thread only. Must not block. May throw nothing
/// but Error, which closes the connection.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  /// Called for each frame. `body` is valid during the call and starts at a multiple of 8 bytes.
  virtual void on_frame(const FrameHeader& header, std::span<const std::byte> body) = 0;
  /// Called after all frames of one read: the time to pass on batched work.
  virtual void on_batch_end() {}
  /// Called when received data cannot be parsed; on_closed() follows. Frames appended here are
  /// sent.
  virtual void on_protocol_error(const Error& /*damage*/) {}
  /// Called exactly once, last; not after stop(). kUnavailable with "connection closed by the other
  /// side" is a plain EOF.
  virtual void on_closed(const Error& reason) = 0;
};

/// Connection that carries frames both ways over a ByteStream.
///
/// Shared by the link that uses it and by threads that are writing, as the last user is unknown.
/// Any thread may append and flush. A flushing thread writes at once what the socket takes, with
/// what other threads appended meanwhile, so that a message needs no hand-over between threads. The
/// loop's thread writes the rest when there is room.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(EventLoop& loop, std::unique_ptr<ByteStream> stream);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Starts reading. The handler must outlive the connection or call stop() first. Loop's thread.
  void start(FrameHandler& handler, std::uint32_t max_body);
  /// Changes handler and limit from the next frame on, at the end of a handshake. Loop's thread.
  void set_handler(FrameHandler& handler, std::uint32_t max_body) {
    handler_ = &handler;
    max_body_ = max_body;
  }
  /// Encrypts and authenticates all later frames (see encrypted_stream.h), if the system does not
  /// protect them: ByteStream::is_private(). Called once, while no other thread writes. Throws
  /// Error(kUnavailable) if the other side has not taken all earlier data. Loop's thread.
  void seal(const StreamKeys& keys);
  /// Ends all callbacks. Closes the socket after the appended frames are written or cannot be.
  /// Loop's thread.
  void stop();

  /// Limit of the unsent bytes. The connection closes beyond it, to protect its user's memory.
  static constexpr std::size_t kMaxUnsentBytes = std::size_t{256} << 20;

  /// Queues one frame. Its body is `body`, then `rest` with zeros up to a multiple of 8 bytes. Any
  /// thread. Without effect once closed.
  void append(std::uint8_t kind, std::uint8_t flags, std::span<const std::byte> body,
              std::span<const std::byte> rest = {});
  /// Makes room for a message of several frames, which append() adds. Any thread.
  void make_room(std::size_t bytes);
  /// Writes from this thread as much as the socket takes without blocking. Any thread.
  void flush();
  /// Schedules a write by the loop's thread. Calls until then share one write. Any thread.
  void schedule_flush();
  /// Runs `callback` on the loop's thread. Any thread.
  void post(std::function<void()> callback) { loop_.post(std::move(callback)); }
  /// Returns the bytes queued and not yet taken by the socket.
  std::size_t unsent_bytes() const;
  /// Blocks until the socket has taken all queued bytes or is closed, at most until `limit`. Any
  /// thread but the loop's.
  void wait_sent(TimePoint limit) const;

  const Address& peer_address() const { return peer_; }
  /// See ByteStream. Loop's thread.
  std::span<const std::byte> channel_binding() const;
  bool violates_tls_policy() const;
  /// Returns true if nobody on the way can read the data: TLS, or a loopback connection.
  bool is_private() const;

 private:
  void read_more();
  void parse();
  void close(const Error& reason);
  void wait_writable();

  EventLoop& loop_;
  std::unique_ptr<ByteStream> stream_;  // replaced by seal() alone, under mutex_
  const Address peer_;

  // Used by the loop's thread.
  FrameHandler* handler_ = nullptr;
  std::uint32_t max_body_ = kMaxFrameBody;
  std::vector<std::byte> input_;
  std::size_t input_begin_ = 0;
  std::size_t input_end_ = 0;
  std::uint64_t next_input_ = 0;

  mutable Condition sent_;  // signals that all is written or the connection is closed
  // guards the members below; writing_ belongs to the thread that set flushing_
  mutable Mutex mutex_;
  bool closed_ = false;
  bool stopping_ = false;  // shut the socket down once everything is written
  bool flushing_ = false;
  bool overflowed_ = false;  // set when the unsent bytes exceed kMaxUnsentBytes
  std::vector<std::byte> appended_;
  std::vector<std::byte> writing_;
  std::size_t written_ = 0;
  std::uint64_t next_output_ = 0;
  std::atomic<bool> flush_posted_{false};
};

/// Listening socket. Created and destroyed on any thread but the loop's.
class Listener final {
 public:
  /// Listens and calls `on_connection` on the loop's thread. Throws Error(kUnavailable) if the
  /// address cannot be bound. `tls`, which outlives the loop's callbacks, decides who must use TLS;
  /// null: nobody.
  Listener(EventLoop& loop, const Address& address,
           std::function<void(std::shared_ptr<Connection>)> on_connection,
           TlsPolicy* tls = nullptr);
  ~Listener();
  /// Returns the address with the port that the system chose.
  const Address& address() const { return address_; }

 private:
  struct Impl;
  EventLoop& loop_;
  std::shared_ptr<Impl> impl_;  // shared with the accept that is under way
  Address address_;
};

/// Reaction of dial() to a failed attempt.
enum class Retry { kNever, kUntilDeadline };

/// Callbacks of dial(). One of them runs once, on the loop's thread. The error names address and
/// reason: kNotFound if the host does not exist, an error of TlsPolicy::wrap_dialled(), else
/// kUnavailable.
struct DialCallbacks {
  std::function<void(std::shared_ptr<Connection>)> on_connected;
  std::function<void(const Error&)> on_failed;
};
/// Protection of a dialled connection. `certificate` is the SHA-256 of the certificate that the
/// other side must present; empty: any, if it proves itself otherwise. With a certificate, TLS is
/// used on loopback, too.
struct DialTls {
  TlsPolicy* tls = nullptr;  ///< Outlives the loop's callbacks; null: plain text.
  std::string certificate;
};
/// Connects, with retries after growing pauses (20 ms to 500 ms) if `retry` asks for them. The
/// returned function posts a cancellation to the loop; no callback runs after it. `on_connected`
/// precedes the TLS handshake, which is over when the first bytes have been read. Any thread.
std::function<void()> dial(EventLoop& loop, const Address& address, TimePoint deadline, Retry retry,
                           DialCallbacks callbacks, DialTls protection = {});

}  // namespace weft::actors
