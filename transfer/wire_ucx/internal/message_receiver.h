#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>

#include "transfer/wire/wire.h"
#include "transfer/wire_ucx/internal/message_sender.h"
#include "transfer/wire_ucx/internal/peer_table.h"
#include "transfer/wire_ucx/internal/request_pool.h"
#include "transfer/wire_ucx/internal/wire_event_queue.h"
#include "transfer/wire_ucx/internal/worker_set.h"

namespace weft::transfer {

/// Receiving half of a UcxWire: messages that have arrived and not been taken, and receives in
/// flight. Owner's thread only.
class MessageReceiver final {
 public:
  MessageReceiver(PeerTable& peers, MessageSender& sender, WireEventQueue& events)
      : peers_(peers), sender_(sender), events_(events) {}

  /// Reports a message to `owner`, and keeps it if it is not taken at once. `data`: payload, or
  /// handle of a rendezvous. Returns the status for UCX.
  ucs_status_t arrived(WorkerSet::RailWorker& side, DeviceId sender,
                       std::span<const std::byte> header, void* data, std::size_t bytes,
                       bool rendezvous, WireEvents& owner);
  /// See Wire.
  void receive(MessageId message, std::span<std::byte> buffer, Token token);
  void release(MessageId message);

  /// Discards the messages of a peer whose connections are closed. Complete messages of a lost peer
  /// may still be received.
  void discard_messages_of(const Peer& peer);
  /// Returns the senders of rendezvous that were not taken.
  std::set<DeviceId> untaken_senders() const;
  void discard_all();

 private:
  struct IncomingMessage {
    DeviceId sender;
    WorkerSet::RailWorker* side = nullptr;
    std::size_t bytes = 0;
    void* descriptor = nullptr;              // handle of a rendezvous; otherwise null
    const std::byte* in_callback = nullptr;  // payload while message_arrived() runs
    std::unique_ptr<std::byte[]> copy;       // payload afterwards
    bool told = false;  // the sender has been or will be notified that it arrived
  };
  /// Receive that UCX works on.
  struct ReceiveRequest {
    MessageReceiver* receiver;
    const Peer* peer;  // null: a device that was dropped
    Token token;
  };

  void receive_rendezvous(const IncomingMessage& incoming, std::span<std::byte> buffer,
                          Token token);
  /// Grants the sender credit for eager bytes that have left this device's buffer.
  void send_credit(const IncomingMessage& incoming);
  /// Notifies the sender that an eager message has arrived, although no receive has claimed it yet.
  /// Otherwise later messages, which a receiver may need, would count as in flight because of it.
  void send_arrived_notice(IncomingMessage& incoming);
  static void discard(const IncomingMessage& incoming);
  void finish(ReceiveRequest& request, ucs_status_t status);
  static void on_received(void* handle, ucs_status_t status, std::size_t bytes, void* user_data);

  PeerTable& peers_;
  MessageSender& sender_;
  WireEventQueue& events_;
  std::unordered_map<MessageId, IncomingMessage> incoming_;
  RequestPool<ReceiveRequest> requests_;
  std::uint64_t next_message_ = 1;
  MessageId in_callback_;  // message whose message_arrived() runs
  ucs_status_t callback_status_ = UCS_OK;
};

}  // namespace weft::transfer
