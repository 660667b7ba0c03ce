#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transfer/wire/wire.h"
#include "transfer/wire_ucx/internal/peer.h"
#include "transfer/wire_ucx/internal/request_pool.h"
#include "transfer/wire_ucx/internal/wire_event_queue.h"
#include "transfer/wire_ucx/internal/wire_header.h"

namespace weft::transfer {

/// Sending half of a UcxWire: messages of its owner, and messages of the wire itself (hellos,
/// goodbyes, notices). Completes each send once, in `events`. Owner's thread only.
class MessageSender final {
 public:
  MessageSender(DeviceId self, WireEventQueue& events) : self_(self), events_(events) {}

  /// Sends a message, or queues it until all connections of the peer are open.
  void send(Peer& to, std::span<const std::byte> header, std::span<const std::byte> payload,
            Token token);
  /// Sends a message of the wire itself on one connection.
  void send_control(Peer& peer, Peer::UcxConnection& connection, WireHeader::Kind kind,
                    std::uint64_t value);
  /// Sends a greeting if the connection's socket can send it now. Returns true if it has left.
  bool try_greeting(const Peer& peer, const Peer::UcxConnection& connection);
  /// Counts received bytes, and notifies the peer, in large steps. See EagerFlowControl::count().
  void send_notice(Peer& peer, std::size_t route, WireHeader::Kind kind, std::size_t bytes);
  /// Handles the peer's notice about bytes that this device has sent.
  void notice_arrived(Peer::UcxRoute& route, WireHeader::Kind kind, std::uint64_t bytes);
  /// Opens a peer once all its connections are open. Call when a hello has left or arrived.
  void open_if_connected(Peer& peer);
  /// Fails the sends to a peer that have not begun or whose completion is delayed.
  void fail_waiting(Peer& peer);
  /// Returns true while UCX works on a send.
  bool is_sending() const { return in_flight_ > 0; }

 private:
  /// Send that UCX works on. The header must not move until UCX has finished.
  struct SendRequest {
    MessageSender* sender;
    Peer* peer;
    std::size_t route;
    std::size_t rendezvous_bytes;  // bytes of a rendezvous
    std::uint64_t eager_end;       // end of an eager message, see EagerFlowControl
    std::optional<Token> token;    // empty: a message of the wire itself
    Peer::UcxConnection* hello;    // connection of which this is the first message, if any
    std::array<std::byte, sizeof(WireHeader) + Wire::kMaxHeaderBytes> header;
  };
  SendRequest& new_request(Peer& peer, std::optional<Token> token);
  void transmit(Peer& to, std::span<const std::byte> header, std::span<const std::byte> payload,
                Token token);
  void post(SendRequest& request, const Peer::UcxConnection& connection, std::size_t header_bytes,
            std::span<const std::byte> payload, bool eager);
  void finish(SendRequest& request, ucs_status_t status);
  static void on_sent(void* handle, ucs_status_t status, void* user_data);

  const DeviceId self_;
  WireEventQueue& events_;
  RequestPool<SendRequest> requests_;
  std::size_t in_flight_ = 0;
};

}  // namespace weft::transfer
