#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/outcome.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

/// Identifier of a message that has arrived and not been taken. Unique on one wire, never reused.
using MessageId = StrongId<struct MessageTag, std::uint64_t>;
/// Caller's identifier of a send or a receive, passed back when it finishes.
using Token = std::uint64_t;

/// Transport that carries the bytes to a peer.
enum class Path : std::uint8_t { kLoopback, kSharedMemory, kTcp };
/// Returns "loopback", "shm" or "tcp".
std::string_view to_string(Path path);

/// Message that has arrived at this device.
struct Message {
  MessageId id;
  DeviceId sender;
  /// Header; valid during message_arrived() only. May be misaligned: copy it with memcpy.
  std::span<const std::byte> header;
  std::size_t bytes = 0;  ///< Size of the payload.
  /// Payload, if it came with the header; valid during message_arrived() only. Empty if it is still
  /// at the sender.
  std::span<const std::byte> payload;
};

/// Callbacks of a wire to its owner. Called only inside Wire::progress(), one at a time.
class WireEvents {
 public:
  virtual ~WireEvents() = default;
  /// Reports a message. The owner must end it with exactly one receive() or release(), now or
  /// later.
  virtual void message_arrived(const Message& message) = 0;
  /// Reports that a send's payload and header buffers may be reused. kCancelled: this device
  /// dropped the connection. kPeerDied: the peer was lost.
  virtual void send_finished(Token token, const Outcome<void>& outcome) = 0;
  /// Reports that the payload is in the buffer given to receive(). After an error the buffer is not
  /// written any more.
  virtual void receive_finished(Token token, const Outcome<void>& outcome) = 0;
  /// Reports that the connection broke. All sends to and receives from `peer` finish with an error,
  /// before or after. Called once per connection, and not for drop().
  virtual void peer_lost(DeviceId peer, const Error& error) = 0;
  /// Reports that data was dropped that is not a message of a device that may send here. `claimed`
  /// is the sender that it names, if any.
  virtual void message_refused(std::optional<DeviceId> claimed, std::string_view why) = 0;
};

/// Moves messages between devices: a small header, which arrives first, and a payload that is
/// written to the receiver's buffer.
///
/// Owned by one TransferEngine. Owner's thread only, except wake() and address(): any thread. Only
/// wait() blocks.
///
/// Order: none is promised, not even between two devices. Number your messages.
///
/// Back-pressure: a payload above the wire's eager limit stays at the sender, and its send
/// unfinished, until the receiver calls receive() or release(). Smaller payloads are buffered at
/// the receiver, at most kEagerBudget bytes per pair of devices; further ones stay at the sender.
/// So a receiver that takes nothing holds a bounded number of bytes. A wire may report the end of a
/// send after its buffer is free, so that its owner does not run ahead of the network.
///
/// Ends: each send() ends in exactly one send_finished(), each receive() in exactly one
/// receive_finished(), never inside the call itself. A message whose sender died may still be
/// received or released; the receive then fails.
///
/// Errors: a broken connection ends all operations in flight with that peer and is reported by
/// peer_lost(). Every transport error counts as a loss of the peer. Sends to a peer that is lost,
/// dropped or was never connected fail with kUnavailable. connect() may be called again.
///
/// Not detected: a peer that is stopped, or cut off without a reset. The layers above monitor
/// liveness and call drop().
class Wire {
 public:
  static constexpr std::size_t kMaxHeaderBytes = 128;
  static constexpr std::size_t kEagerBudget = 1024 * 1024;

  virtual ~Wire() = default;

  virtual DeviceId self() const = 0;
  /// Returns the address that others pass to connect(). Opaque, for wires of the same kind. Any
  /// thread.
  virtual std::vector<std::byte> address() const = 0;
  /// Sets the owner. Call once, before anything else.
  virtual void set_events(WireEvents& events) = 0;

  /// Registers `peer`; does not wait. Both sides call it. Messages sent before the other side has
  /// called it may wait for that. Throws Error(kInvalidArgument) for a malformed address.
  virtual void connect(DeviceId peer, HostId host, std::span<const std::byte> address) = 0;
  /// Cuts the connection. All operations in flight with `peer` finish soon, with kCancelled unless
  /// they finished before. Messages from it that were not taken are discarded. The peer sees this
  /// device as lost. No-op if not connected.
  virtual void drop(DeviceId peer) = 0;
  virtual bool is_connected(DeviceId peer) const = 0;
  virtual Path path_to(DeviceId peer) const = 0;

  /// Sends a message. `header` (at most kMaxHeaderBytes) is copied. `payload` must stay unchanged
  /// until send_finished(token).
  virtual void send(DeviceId peer, std::span<const std::byte> header,
                    std::span<const std::byte> payload, Token token) = 0;
  /// Receives a message's payload into `buffer`, which has exactly its size, before
  /// receive_finished(token).
  virtual void receive(MessageId message, std::span<std::byte> buffer, Token token) = 0;
  /// Ends a message without receiving it: its payload was read in place, or is not needed.
  virtual void release(MessageId message) = 0;

  /// Does all work that is possible now and calls WireEvents. Returns the number of things done.
  virtual std::size_t progress() = 0;
  /// Blocks until something may have happened, wake() was called, or `timeout` has passed. May
  /// return early.
  virtual void wait(Nanoseconds timeout) = 0;
  /// Returns the bytes received over the network so far, including those of incomplete messages.
  /// Shows whether a large message still makes progress. 0 if the wire cannot tell. Any thread.
  virtual std::uint64_t network_bytes_received() const { return 0; }
  /// Ends the present wait(), or the next one. Any thread.
  virtual void wake() = 0;
};

}  // namespace weft::transfer
