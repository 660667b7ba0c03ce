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

/// Names a message that has arrived and not yet been taken; unique on one wire, never reused.
using MessageId = StrongId<struct MessageTag, std::uint64_t>;
/// The caller's own name for a send or a receive; comes back when it finishes.
using Token = std::uint64_t;

/// What carries the bytes to a peer.
enum class Path : std::uint8_t { kLoopback, kSharedMemory, kTcp };
/// "loopback", "shm", "tcp".
std::string_view to_string(Path path);

/// A message that has arrived at this device.
struct Message {
  MessageId id;
  DeviceId sender;
  /// Valid during message_arrived() only. May be misaligned: memcpy out of it.
  std::span<const std::byte> header;
  std::size_t bytes = 0;  ///< Size of the payload.
  /// The payload, if it came along with the header; valid during message_arrived() only. Empty if
  /// it is still at the sender.
  std::span<const std::byte> payload;
};

/// What a wire tells its owner: only from inside Wire::progress(), one call at a time.
class WireEvents {
 public:
  virtual ~WireEvents() = default;
  /// Every message must be ended by exactly one receive() or release(), now or later.
  virtual void message_arrived(const Message& message) = 0;
  /// The payload and header buffers of this send may be reused. kCancelled: dropped by us;
  /// kPeerDied: the peer is gone.
  virtual void send_finished(Token token, const Outcome<void>& outcome) = 0;
  /// The payload is in the buffer given to receive(), or (on error) the buffer is not touched any
  /// more.
  virtual void receive_finished(Token token, const Outcome<void>& outcome) = 0;
  /// The connection is broken, seen here first. All sends to and receives from `peer` finish with
  /// an error, before or after. Told once per connection, and not for drop().
  virtual void peer_lost(DeviceId peer, const Error& error) = 0;
  /// Something came that is no message of a device that may send here, and was dropped. `claimed`:
  /// whom it says it comes from, if it says that.
  virtual void message_refused(std::optional<DeviceId> claimed, std::string_view why) = 0;
};

/// Moves messages between devices: a small header, which arrives first, and a payload that lands
/// where the receiver says.
///
/// Owner: one TransferEngine. Owner's thread only, but wake() and address(): any thread. Nothing
/// blocks but wait().
///
/// Order: none is promised, not even between two devices; number your messages.
/// Back-pressure: a payload above the wire's eager limit stays at the sender, and its send
///   unfinished, until the receiver calls receive() or release(). Smaller ones are buffered at the
///   receiver, at most kEagerBudget bytes per pair of devices; beyond that they too stay at the
///   sender. So an unwilling receiver holds a bounded number of bytes. So that its owner does not
///   run ahead of the network, a wire may tell the end of a send some time after its buffer is
///   free.
/// Ends: each send() ends in exactly one send_finished(), each receive() in exactly one
///   receive_finished(); never from inside the call itself. A message whose sender died may still
///   be received or released; the receive then fails.
/// Errors: a broken connection ends everything under way with that peer and is told by peer_lost();
///   whatever the transport says, the cause counts as the peer being lost. Sends to a peer that is
///   lost, dropped or was never connected fail with kUnavailable. connect() may be called again.
/// Not seen: a peer that is stopped or cut off without a reset. The layers above watch over
///   liveness and call drop().
class Wire {
 public:
  static constexpr std::size_t kMaxHeaderBytes = 128;
  static constexpr std::size_t kEagerBudget = 1024 * 1024;

  virtual ~Wire() = default;

  virtual DeviceId self() const = 0;
  /// What others need to connect() to this device: opaque, from the same kind of wire. Any thread.
  virtual std::vector<std::byte> address() const = 0;
  /// Must come before anything else, once.
  virtual void set_events(WireEvents& events) = 0;

  /// Makes `peer` known; does not wait. Both sides call it; what is sent before the other side has
  /// may wait for that. Throws Error(kInvalidArgument) for an address that cannot be one.
  virtual void connect(DeviceId peer, HostId host, std::span<const std::byte> address) = 0;
  /// Cuts the connection: everything under way with `peer` finishes soon, with kCancelled where it
  /// had not finished before, and messages from it that were not taken are gone. The peer sees this
  /// device as lost. No-op if not connected.
  virtual void drop(DeviceId peer) = 0;
  virtual bool is_connected(DeviceId peer) const = 0;
  virtual Path path_to(DeviceId peer) const = 0;

  /// `header` (at most kMaxHeaderBytes) is copied; `payload` must stay as it is until
  /// send_finished(token).
  virtual void send(DeviceId peer, std::span<const std::byte> header,
                    std::span<const std::byte> payload, Token token) = 0;
  /// Takes a message: its payload lands in `buffer`, which has exactly its size, before
  /// receive_finished(token).
  virtual void receive(MessageId message, std::span<std::byte> buffer, Token token) = 0;
  /// Ends a message without receiving it: its payload was read in place, or nobody wants it.
  virtual void release(MessageId message) = 0;

  /// Does what can be done now and calls WireEvents. Returns the number of things done; 0: nothing
  /// to do.
  virtual std::size_t progress() = 0;
  /// Sleeps until something may have happened, wake() was called, or `timeout` has passed. May
  /// return early.
  virtual void wait(Nanoseconds timeout) = 0;
  /// Bytes that have come over the network so far, also of messages that are not whole yet: whether
  /// a large one still moves. 0 where the wire cannot tell. Any thread.
  virtual std::uint64_t network_bytes_received() const { return 0; }
  /// Ends a wait(), the present or the next one. Any thread.
  virtual void wake() = 0;
};

}  // namespace weft::transfer
