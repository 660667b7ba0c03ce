#include "transfer/wire_ucx/internal/message_sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transfer/wire_ucx/internal/ucx_outcome.h"

namespace weft::transfer {

MessageSender::SendRequest& MessageSender::new_request(Peer& peer, std::optional<Token> token) {
  SendRequest& request = requests_.take();
  request.sender = this;
  request.peer = &peer;
  request.route = 0;
  request.rendezvous_bytes = 0;
  request.eager_end = 0;
  request.token = token;
  request.hello = nullptr;
  return request;
}

void MessageSender::post(SendRequest& request, const Peer::UcxConnection& connection,
                         std::size_t header_bytes, std::span<const std::byte> payload, bool eager) {
  ucp_request_param_t params = {};
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  params.cb.send = &on_sent;
  params.user_data = &request;
  params.flags = eager ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  // Over shared memory, the first message that allows a reply connects the endpoints.
  if (request.hello != nullptr) params.flags |= UCP_AM_SEND_FLAG_REPLY;
  ++in_flight_;
  void* status = ucp_am_send_nbx(connection.endpoint, 0, request.header.data(), header_bytes,
                                 payload.data(), payload.size(), &params);
  if (status == nullptr) finish(request, UCS_OK);
  else if (UCS_PTR_IS_ERR(status)) finish(request, UCS_PTR_STATUS(status));
}

void MessageSender::send(Peer& to, std::span<const std::byte> header,
                         std::span<const std::byte> payload, Token token) {
  if (to.open) transmit(to, header, payload, token);
  else to.queued.push_back({{header.begin(), header.end()}, payload, token});
}

void MessageSender::transmit(Peer& to, std::span<const std::byte> header,
                             std::span<const std::byte> payload, Token token) {
  const bool eager =
      payload.size() <= to.eager_limit && to.untaken() + payload.size() <= Wire::kEagerBudget;
  SendRequest& request = new_request(to, token);
  request.route = to.least_loaded_route();
  Peer::UcxRoute& route = to.routes[request.route];
  if (eager) {
    request.eager_end = route.eager.send(payload.size());
  } else {
    request.rendezvous_bytes = payload.size();
    route.rendezvous_bytes += payload.size();
  }
  const WireHeader prefix{WireHeader::kMessage, self_.value(), 0, to.proof};
  std::memcpy(request.header.data(), &prefix, sizeof(prefix));
  if (!header.empty())
    std::memcpy(request.header.data() + sizeof(prefix), header.data(), header.size());
  post(request, route.out, sizeof(prefix) + header.size(), payload, eager);
}

void MessageSender::send_control(Peer& peer, Peer::UcxConnection& connection, WireHeader::Kind kind,
                                 std::uint64_t value) {
  SendRequest& request = new_request(peer, std::nullopt);
  if (kind == WireHeader::kHello) request.hello = &connection;
  const WireHeader prefix{kind, self_.value(), value, peer.proof};
  std::memcpy(request.header.data(), &prefix, sizeof(prefix));
  post(request, connection, sizeof(prefix), {}, true);
}

bool MessageSender::try_greeting(const Peer& peer, const Peer::UcxConnection& connection) {
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
  params.flags = UCP_AM_SEND_FLAG_EAGER;
  const WireHeader greeting{WireHeader::kGreeting, self_.value(), 0, peer.proof};
  return ucp_am_send_nbx(connection.endpoint, 0, &greeting, sizeof(greeting), nullptr, 0,
                         &params) == nullptr;
}

void MessageSender::send_notice(Peer& peer, std::size_t index, WireHeader::Kind kind,
                                std::size_t bytes) {
  if (index >= peer.routes.size() || peer.end != Peer::End::kNone) return;
  Peer::UcxRoute& route = peer.routes[index];
  const auto told = route.eager.count(kind, bytes);
  if (told && !events_.is_closed()) send_control(peer, route.notice_connection(), kind, *told);
}

void MessageSender::notice_arrived(Peer::UcxRoute& route, WireHeader::Kind kind,
                                   std::uint64_t bytes) {
  for (const Token token : route.eager.told(kind, bytes)) events_.push(SendFinished{token, {}});
}

void MessageSender::open_if_connected(Peer& peer) {
  const auto all = peer.connections();
  if (peer.open ||
      !std::ranges::all_of(all, [](const Peer::UcxConnection* each) { return each->is_open(); }))
    return;
  peer.open = true;
  for (const Peer::QueuedMessage& message : std::exchange(peer.queued, {}))
    transmit(peer, message.header, message.payload, message.token);
}

void MessageSender::fail_waiting(Peer& peer) {
  for (Peer::UcxRoute& route : peer.routes) {
    for (const Token token : route.eager.take_delayed())
      events_.push(SendFinished{token, outcome_of(UCS_ERR_CONNECTION_RESET, &peer)});
  }
  for (const Peer::QueuedMessage& message : std::exchange(peer.queued, {}))
    events_.push(SendFinished{message.token, outcome_of(UCS_ERR_CONNECTION_RESET, &peer)});
}

void MessageSender::finish(SendRequest& request, ucs_status_t status) {
  --in_flight_;
  Peer& peer = *request.peer;
  Peer::UcxRoute& route = peer.routes[request.route];
  route.rendezvous_bytes -= request.rendezvous_bytes;
  if (request.hello != nullptr && status == UCS_OK) {
    request.hello->hello_sent = true;
    open_if_connected(peer);
  }
  if (request.token) {
    const bool far_ahead = route.eager.exceeds_window(request.eager_end) && peer.path == Path::kTcp;
    if (status == UCS_OK && peer.end == Peer::End::kNone && far_ahead)
      route.eager.delay_completion(request.eager_end, *request.token);
    else events_.push(SendFinished{*request.token, outcome_of(status, &peer)});
  }
  requests_.give_back(request);
}

void MessageSender::on_sent(void* handle, ucs_status_t status, void* user_data) {
  auto& request = *static_cast<SendRequest*>(user_data);
  request.sender->finish(request, status);
  ucp_request_free(handle);
}

}  // namespace weft::transfer
