#include "transfer/wire_ucx/internal/message_receiver.h"

#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "transfer/wire_ucx/internal/ucx_outcome.h"

namespace weft::transfer {

ucs_status_t MessageReceiver::arrived(WorkerSet::RailWorker& side, DeviceId sender,
                                      std::span<const std::byte> header, void* data,
                                      std::size_t bytes, bool rendezvous, WireEvents& owner) {
  const MessageId id(next_message_++);
  IncomingMessage& incoming = incoming_[id];
  incoming.sender = sender;
  incoming.side = &side;
  incoming.bytes = bytes;
  Message message{id, sender, header, bytes, {}};
  if (rendezvous) {
    incoming.descriptor = data;
  } else {
    incoming.in_callback = static_cast<const std::byte*>(data);
    message.payload = {incoming.in_callback, bytes};
  }
  in_callback_ = id;
  callback_status_ = UCS_OK;
  owner.message_arrived(message);
  in_callback_ = MessageId(0);
  const auto kept = incoming_.find(id);
  if (kept == incoming_.end()) return callback_status_;
  if (rendezvous) return UCS_INPROGRESS;
  kept->second.copy.reset(new std::byte[bytes]);
  if (bytes != 0) std::memcpy(kept->second.copy.get(), data, bytes);
  kept->second.in_callback = nullptr;
  if (!kept->second.told) send_arrived_notice(kept->second);
  return callback_status_;
}

void MessageReceiver::receive(MessageId message, std::span<std::byte> buffer, Token token) {
  const auto found = incoming_.find(message);
  if (found == incoming_.end())
    return events_.push(ReceiveFinished{
        token, Error(ErrorCode::kPeerDied, "the sender of the message was lost or dropped")});
  const IncomingMessage incoming = std::move(found->second);
  incoming_.erase(found);
  WEFT_CHECK(buffer.size() == incoming.bytes, "buffer of {} bytes for {}", buffer.size(),
             incoming.bytes);
  if (incoming.descriptor != nullptr) {
    if (message == in_callback_) callback_status_ = UCS_INPROGRESS;
    return receive_rendezvous(incoming, buffer, token);
  }
  const std::byte* from =
      incoming.in_callback != nullptr ? incoming.in_callback : incoming.copy.get();
  if (incoming.bytes != 0) std::memcpy(buffer.data(), from, incoming.bytes);
  send_credit(incoming);
  events_.push(ReceiveFinished{token, {}});
}

void MessageReceiver::receive_rendezvous(const IncomingMessage& incoming,
                                         std::span<std::byte> buffer, Token token) {
  ReceiveRequest& request = requests_.take();
  request = {this, peers_.find(incoming.sender), token};
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.recv_am = &on_received;
  params.user_data = &request;
  void* status = ucp_am_recv_data_nbx(incoming.side->worker.get(), incoming.descriptor,
                                      buffer.data(), buffer.size(), &params);
  if (status == nullptr) finish(request, UCS_OK);
  else if (UCS_PTR_IS_ERR(status)) finish(request, UCS_PTR_STATUS(status));
}

void MessageReceiver::release(MessageId message) {
  const auto found = incoming_.find(message);
  if (found == incoming_.end()) return;
  const IncomingMessage incoming = std::move(found->second);
  incoming_.erase(found);
  if (incoming.descriptor == nullptr) send_credit(incoming);
  else if (message != in_callback_) discard(incoming);
}

void MessageReceiver::send_credit(const IncomingMessage& incoming) {
  Peer* const peer = peers_.find(incoming.sender);
  if (peer == nullptr || peer->path != incoming.side->path) return;  // the peer was dropped
  sender_.send_notice(*peer, incoming.side->route,
                      incoming.told ? WireHeader::kUnbuffered : WireHeader::kCredit,
                      incoming.bytes);
}

void MessageReceiver::send_arrived_notice(IncomingMessage& incoming) {
  Peer* const peer = peers_.find(incoming.sender);
  if (peer == nullptr || peer->path != incoming.side->path || peer->path != Path::kTcp) return;
  incoming.told = true;
  sender_.send_notice(*peer, incoming.side->route, WireHeader::kBuffered, incoming.bytes);
}

void MessageReceiver::discard_messages_of(const Peer& peer) {
  std::erase_if(incoming_, [&](const auto& entry) {
    const IncomingMessage& incoming = entry.second;
    const bool is_complete = incoming.descriptor == nullptr;
    if (incoming.sender != peer.id || (is_complete && peer.end == Peer::End::kFailed)) return false;
    discard(incoming);
    return true;
  });
}

std::set<DeviceId> MessageReceiver::untaken_senders() const {
  std::set<DeviceId> senders;
  for (const auto& [id, incoming] : incoming_)
    if (incoming.descriptor != nullptr) senders.insert(incoming.sender);
  return senders;
}

void MessageReceiver::discard_all() {
  for (const auto& [id, incoming] : incoming_) discard(incoming);
}

void MessageReceiver::discard(const IncomingMessage& incoming) {
  if (incoming.descriptor != nullptr)
    ucp_am_data_release(incoming.side->worker.get(), incoming.descriptor);
}

void MessageReceiver::finish(ReceiveRequest& request, ucs_status_t status) {
  events_.push(ReceiveFinished{request.token, outcome_of(status, request.peer)});
  requests_.give_back(request);
}

void MessageReceiver::on_received(void* handle, ucs_status_t status, std::size_t, void* user_data) {
  auto& request = *static_cast<ReceiveRequest*>(user_data);
  request.receiver->finish(request, status);
  ucp_request_free(handle);
}

}  // namespace weft::transfer
