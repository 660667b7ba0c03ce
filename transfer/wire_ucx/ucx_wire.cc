#include "transfer/wire_ucx/ucx_wire.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "core/base/check.h"
#include "transfer/wire/wire_event.h"
#include "transfer/wire_ucx/internal/network_text.h"
#include "transfer/wire_ucx/internal/peer.h"
#include "transfer/wire_ucx/internal/ucx_address.h"
#include "transfer/wire_ucx/internal/wire_header.h"
#include "transfer/wire_ucx/internal/worker_set.h"

namespace weft::transfer {
namespace {

// Time that the destructor waits for the last messages to leave.
constexpr auto kFlushTime = std::chrono::milliseconds(200);

}  // namespace

/// Implementation of make_ucx_wire().
class UcxWire final : public Wire {
 public:
  UcxWire(DeviceId self, HostId host, const UcxOptions& options)
      : self_(self),
        host_(host),
        options_(options),
        wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        network_(describe_network(options.interfaces)),
        workers_(options.interfaces, &on_message, this) {
    WEFT_CHECK(wake_fd_ >= 0, "eventfd: {}", std::strerror(errno));
    const WorkerSet::RailWorker* shm = workers_.shared_memory();
    address_ = encode(UcxAddress::of(
        self_, host_, workers_.rail_addresses(),
        shm != nullptr ? shm->worker.address() : std::vector<std::byte>(), network_));
  }

  ~UcxWire() override {
    // Cuts connections with messages that were never taken: they do not count as received.
    std::set<DeviceId> untaken;
    for (auto& [id, incoming] : incoming_) {
      if (incoming.descriptor != nullptr) untaken.insert(incoming.sender);
    }
    ending_ = true;
    const auto close_all = [&] {
      bool all = close_lingering();
      for (auto& [id, peer] : peers_)
        all &= close(*peer,
                     untaken.contains(id) ? UcxWorker::Close::kForce : UcxWorker::Close::kFlush);
      return all;
    };
    bool closed = close_all();
    for (auto& [id, incoming] : incoming_) discard(incoming);
    const auto until = std::chrono::steady_clock::now() + kFlushTime;
    while ((!closed || workers_.is_closing() || sends_under_way_ > 0) &&
           std::chrono::steady_clock::now() < until) {
      if (workers_.progress() == 0) wait(std::chrono::milliseconds(5));
      closed = close_all();
    }
    ::close(wake_fd_);
  }

  DeviceId self() const override { return self_; }
  std::vector<std::byte> address() const override { return address_; }
  void set_events(WireEvents& events) override { events_ = &events; }

  void connect(DeviceId peer, HostId host, std::span<const std::byte> bytes) override {
    if (peers_.contains(peer)) return;
    const UcxAddress address = UcxAddress::parse(peer, bytes);
    auto owned = std::make_unique<Peer>();
    Peer& added = *owned;
    added.id = peer;
    added.proof = proof_of_sender(options_.secret, self_, peer);
    added.wire = this;
    const bool near = host == host_ && workers_.shared_memory() != nullptr && !address.shm.empty();
    added.path = near ? Path::kSharedMemory : Path::kTcp;
    added.eager_limit = near ? options_.shm_eager_bytes : options_.tcp_eager_bytes;
    if (near) {
      added.process = ProcessWatch(address.pid);
      if (added.process.had_exited())
        added.fail(fmt::format("its process, {}, has ended", address.pid));
    }
    added.route_text = fmt::format("{}, from {}", address.network, network_);
    try {
      added.connect_endpoints(workers_, address, &on_peer_error);
    } catch (const Error& error) {
      added.end = Peer::End::kDropped;  // endpoints that exist already refer to the peer
      close_peer(peers_.emplace(peer, std::move(owned)).first);
      if (near) throw;
      throw_error(ErrorCode::kUnavailable, "device {} at {}: {}; {}", peer, added.route_text,
                  error.message(), network_advice());
    }
    peers_.emplace(peer, std::move(owned));
    for (Peer::Connection* connection : added.connections()) {
      connection->hello_received = early_hellos_.erase({peer, connection->worker}) != 0;
      send_control(added, *connection, WireHeader::kHello, 0);
    }
  }

  void drop(DeviceId peer) override {
    const auto found = peers_.find(peer);
    if (found == peers_.end()) return;
    found->second->end = Peer::End::kDropped;
    close_peer(found);
  }
  bool is_connected(DeviceId peer) const override {
    const auto found = peers_.find(peer);
    return found != peers_.end() && found->second->end == Peer::End::kNone;
  }
  Path path_to(DeviceId peer) const override {
    const auto found = peers_.find(peer);
    WEFT_CHECK(found != peers_.end(), "device {} is not connected", peer);
    return found->second->path;
  }

  void send(DeviceId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
            Token token) override {
    WEFT_CHECK(header.size() <= kMaxHeaderBytes, "header of {} bytes", header.size());
    const auto found = peers_.find(peer);
    if (found == peers_.end() || found->second->end != Peer::End::kNone) {
      happened_.push_back(SendFinished{
          token, Error(ErrorCode::kUnavailable, fmt::format("device {} is not connected", peer))});
      return;
    }
    Peer& to = *found->second;
    if (to.open) transmit(to, header, payload, token);
    else to.queued.push_back({{header.begin(), header.end()}, payload, token});
  }

  void receive(MessageId message, std::span<std::byte> buffer, Token token) override {
    const auto found = incoming_.find(message);
    if (found == incoming_.end()) {
      happened_.push_back(ReceiveFinished{
          token, Error(ErrorCode::kPeerDied, "the sender of the message was lost or dropped")});
      return;
    }
    Incoming incoming = std::move(found->second);
    incoming_.erase(found);
    WEFT_CHECK(buffer.size() == incoming.bytes, "buffer of {} bytes for {}", buffer.size(),
               incoming.bytes);
    if (incoming.descriptor == nullptr) {
      const std::byte* from =
          incoming.in_callback != nullptr ? incoming.in_callback : incoming.copy.get();
      if (incoming.bytes != 0) std::memcpy(buffer.data(), from, incoming.bytes);
      send_credit(incoming);
      happened_.push_back(ReceiveFinished{token, {}});
      return;
    }
    if (message == in_callback_) callback_status_ = UCS_INPROGRESS;
    const auto peer = peers_.find(incoming.sender);
    Request* request = new_request(peer == peers_.end() ? nullptr : peer->second.get(), token);
    ucp_request_param_t params = {};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.recv_am = &on_received;
    params.user_data = request;
    void* status = ucp_am_recv_data_nbx(incoming.side->worker.get(), incoming.descriptor,
                                        buffer.data(), buffer.size(), &params);
    if (status == nullptr) finish_receive(*request, UCS_OK);
    else if (UCS_PTR_IS_ERR(status)) finish_receive(*request, UCS_PTR_STATUS(status));
  }

  void release(MessageId message) override {
    const auto found = incoming_.find(message);
    if (found == incoming_.end()) return;
    Incoming incoming = std::move(found->second);
    incoming_.erase(found);
    if (incoming.descriptor == nullptr) send_credit(incoming);
    else if (message != in_callback_) discard(incoming);
  }

  std::size_t progress() override {
    WEFT_CHECK(events_ != nullptr, "set_events() comes before progress()");
    std::size_t done = workers_.progress();
    close_lingering();
    // Endpoint errors are reported inside the progress above, which may return 0 then.
    for (auto it = peers_.begin(); it != peers_.end();) {
      const auto at = it++;
      Peer& peer = *at->second;
      if (peer.is_over()) peer.fail(peer.cause);
      if (peer.end != Peer::End::kFailed) continue;
      happened_.push_back(PeerLost{at->first, Error(ErrorCode::kPeerDied, peer.cause)});
      close_peer(at);
    }
    while (!happened_.empty()) {
      ++done;
      const Happened what = std::move(happened_.front());
      happened_.pop_front();
      std::visit([this](const auto& event) { dispatch_event(*events_, event); }, what);
    }
    return done;
  }

  void wait(Nanoseconds timeout) override {
    if (!happened_.empty()) return;
    std::vector<pollfd> fds = {{wake_fd_, POLLIN, 0}};
    for (const auto& [id, peer] : peers_) {
      if (peer->process.fd() >= 0 && peer->end == Peer::End::kNone)
        fds.push_back({peer->process.fd(), POLLIN, 0});
      if (peer->first_ended) timeout = std::min<Nanoseconds>(timeout, kDrainTime);
    }
    if (!workers_.wait(fds, timeout)) return;
    if ((fds[0].revents & POLLIN) != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_fd_, &count, sizeof(count));
    }
    for (std::size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      for (const auto& [id, peer] : peers_) {
        if (peer->process.fd() != fds[i].fd) continue;
        for (Peer::Connection* connection : peer->connections()) connection->ended = true;
        peer->fail(fmt::format("its process, {}, has ended", peer->process.pid()));
      }
    }
  }

  std::uint64_t network_bytes_received() const override {
    return workers_.network_bytes_received();
  }

  void wake() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(wake_fd_, &one, sizeof(one));
  }

 private:
  /// Send or receive that UCX works on. The header must not move until UCX has finished.
  struct Request {
    UcxWire* wire = nullptr;
    Peer* peer = nullptr;  // null: a receive from a device that was dropped
    std::size_t route = 0;
    std::size_t rendezvous_bytes = 0;   // bytes of a rendezvous
    std::uint64_t eager_end = 0;        // end of an eager message, see EagerFlowControl
    std::optional<Token> token;         // empty: a message of the wire itself
    Peer::Connection* hello = nullptr;  // connection of which this is the first message, if any
    std::array<std::byte, sizeof(WireHeader) + kMaxHeaderBytes> header;
  };
  struct Incoming {
    DeviceId sender;
    WorkerSet::RailWorker* side = nullptr;
    std::size_t bytes = 0;
    void* descriptor = nullptr;              // handle of a rendezvous; otherwise null
    const std::byte* in_callback = nullptr;  // payload while message_arrived() runs
    std::unique_ptr<std::byte[]> copy;       // payload afterwards
    bool told = false;  // the sender has been or will be notified that it arrived
  };
  using Happened = std::variant<SendFinished, ReceiveFinished, PeerLost>;

  Request* new_request(Peer* peer, std::optional<Token> token) {
    if (free_requests_.empty()) {
      requests_.push_back(std::make_unique<Request>());
      free_requests_.push_back(requests_.back().get());
    }
    Request* request = free_requests_.back();
    free_requests_.pop_back();
    request->wire = this;
    request->peer = peer;
    request->token = token;
    request->route = 0;
    request->rendezvous_bytes = 0;
    request->eager_end = 0;
    request->hello = nullptr;
    return request;
  }

  void post(Request& request, const Peer::Connection& connection, std::size_t header_bytes,
            std::span<const std::byte> payload, bool eager) {
    ucp_request_param_t params = {};
    params.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    params.cb.send = &on_sent;
    params.user_data = &request;
    params.flags = eager ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
    // Over shared memory, the first message that allows a reply connects the endpoints.
    if (request.hello != nullptr) params.flags |= UCP_AM_SEND_FLAG_REPLY;
    ++sends_under_way_;
    void* status = ucp_am_send_nbx(connection.endpoint, 0, request.header.data(), header_bytes,
                                   payload.data(), payload.size(), &params);
    if (status == nullptr) finish_send(request, UCS_OK);
    else if (UCS_PTR_IS_ERR(status)) finish_send(request, UCS_PTR_STATUS(status));
  }

  void transmit(Peer& to, std::span<const std::byte> header, std::span<const std::byte> payload,
                Token token) {
    const bool eager =
        payload.size() <= to.eager_limit && to.untaken() + payload.size() <= kEagerBudget;
    Request* request = new_request(&to, token);
    request->route = to.least_loaded_route();
    Peer::Route& route = to.routes[request->route];
    if (eager) {
      request->eager_end = route.eager.send(payload.size());
    } else {
      request->rendezvous_bytes = payload.size();
      route.rendezvous_bytes += payload.size();
    }
    const WireHeader prefix{WireHeader::kMessage, self_.value(), 0, to.proof};
    std::memcpy(request->header.data(), &prefix, sizeof(prefix));
    if (!header.empty())
      std::memcpy(request->header.data() + sizeof(prefix), header.data(), header.size());
    post(*request, route.out, sizeof(prefix) + header.size(), payload, eager);
  }

  void send_control(Peer& peer, Peer::Connection& connection, WireHeader::Kind kind,
                    std::uint64_t value) {
    Request* request = new_request(&peer, std::nullopt);
    if (kind == WireHeader::kHello) request->hello = &connection;
    const WireHeader prefix{kind, self_.value(), value, peer.proof};
    std::memcpy(request->header.data(), &prefix, sizeof(prefix));
    post(*request, connection, sizeof(prefix), {}, true);
  }

  /// Called when a hello has left or arrived. Opens the peer once all connections are open.
  void open_if_connected(Peer& peer) {
    const auto all = peer.connections();
    if (peer.open || !std::all_of(all.begin(), all.end(),
                                  [](const Peer::Connection* each) { return each->is_open(); }))
      return;
    peer.open = true;
    for (const Peer::QueuedMessage& message : std::exchange(peer.queued, {}))
      transmit(peer, message.header, message.payload, message.token);
  }
  void hello_arrived(DeviceId sender, const UcxWorker& worker) {
    bool known = false;
    const auto hear = [&](Peer& peer) {
      for (Peer::Connection* connection : peer.connections()) {
        if (peer.id == sender && connection->worker == &worker)
          known = connection->hello_received = true;
      }
      open_if_connected(peer);
    };
    for (Peer* peer : lingering_) hear(*peer);
    if (const auto found = peers_.find(sender); found != peers_.end()) hear(*found->second);
    if (!known) early_hellos_.insert({sender, &worker});
  }

  /// Closes the peer's connections that may be closed (see Peer). Returns true if all are closed.
  bool close(Peer& peer, UcxWorker::Close how) {
    bool all = true;
    for (Peer::Connection* connection : peer.connections()) {
      if (connection->endpoint == nullptr) continue;
      if (!connection->is_open() && !connection->ended) {
        all = false;
        continue;
      }
      // A socket's end notifies the other side; shared memory needs a message for that.
      if (!connection->ended) send_control(peer, *connection, WireHeader::kGoodbye, 0);
      connection->worker->close(std::exchange(connection->endpoint, nullptr), how);
    }
    return all;
  }
  /// Closes connections that could not be closed earlier. Returns true if none is left.
  bool close_lingering() {
    std::erase_if(lingering_, [&](Peer* peer) { return close(*peer, UcxWorker::Close::kForce); });
    return lingering_.empty();
  }

  /// Grants the sender, in large steps, credit for eager bytes that have left this device's buffer.
  void send_credit(const Incoming& incoming) {
    const auto found = peers_.find(incoming.sender);
    if (found == peers_.end()) return;  // the peer was dropped
    Peer& peer = *found->second;
    if (peer.path == incoming.side->path)
      send_notice(peer, incoming.side->route,
                  incoming.told ? WireHeader::kUnbuffered : WireHeader::kCredit, incoming.bytes);
  }
  /// Notifies the sender that an eager message has arrived, although no receive has claimed it yet.
  /// Otherwise later messages, which a receiver may need, would count as in flight because of it.
  void send_arrived_notice(Incoming& incoming) {
    const auto found = peers_.find(incoming.sender);
    if (found == peers_.end() || found->second->path != incoming.side->path ||
        found->second->path != Path::kTcp)
      return;
    incoming.told = true;
    send_notice(*found->second, incoming.side->route, WireHeader::kBuffered, incoming.bytes);
  }
  void send_notice(Peer& peer, std::size_t index, WireHeader::Kind kind, std::size_t bytes) {
    if (index >= peer.routes.size() || peer.end != Peer::End::kNone) return;
    Peer::Route& route = peer.routes[index];
    const auto told = route.eager.count(kind, bytes);
    if (told && !ending_) send_control(peer, route.notice_connection(), kind, *told);
  }

  void finish_send(Request& request, ucs_status_t status) {
    --sends_under_way_;
    request.peer->routes[request.route].rendezvous_bytes -= request.rendezvous_bytes;
    if (request.hello != nullptr && status == UCS_OK) {
      request.hello->hello_sent = true;
      open_if_connected(*request.peer);
    }
    if (request.token && !ending_) {
      Peer::Route& route = request.peer->routes[request.route];
      const bool far_ahead =
          route.eager.exceeds_window(request.eager_end) && request.peer->path == Path::kTcp;
      if (status == UCS_OK && request.peer->end == Peer::End::kNone && far_ahead)
        route.eager.delay_completion(request.eager_end, *request.token);
      else happened_.push_back(SendFinished{*request.token, outcome_of(status, request.peer)});
    }
    free_requests_.push_back(&request);
  }

  void finish_receive(Request& request, ucs_status_t status) {
    if (!ending_) {
      happened_.push_back(ReceiveFinished{*request.token, outcome_of(status, request.peer)});
    }
    free_requests_.push_back(&request);
  }

  static Outcome<void> outcome_of(ucs_status_t status, const Peer* peer) {
    if (status == UCS_OK) return {};
    if (peer != nullptr && peer->end == Peer::End::kDropped) {
      return Error(ErrorCode::kCancelled,
                   fmt::format("the connection to device {} was dropped", peer->id));
    }
    return Error(ErrorCode::kPeerDied, text_of(status, peer));
  }

  /// Returns UCX's description. For network errors, adds the addresses of both ends and advice.
  static std::string text_of(ucs_status_t status, const Peer* peer) {
    const bool unreached = status == UCS_ERR_UNREACHABLE || status == UCS_ERR_NO_DEVICE ||
                           status == UCS_ERR_TIMED_OUT || status == UCS_ERR_ENDPOINT_TIMEOUT;
    if (!unreached || peer == nullptr || peer->path != Path::kTcp) return ucs_status_string(status);
    return fmt::format("device {} at {}: {}; {}", peer->id, peer->route_text,
                       ucs_status_string(status), network_advice());
  }

  static void discard(Incoming& incoming) {
    if (incoming.descriptor != nullptr)
      ucp_am_data_release(incoming.side->worker.get(), incoming.descriptor);
  }

  /// Closes a peer's endpoints. The Peer stays, since pending callbacks refer to it.
  void close_peer(std::map<DeviceId, std::unique_ptr<Peer>>::iterator found) {
    Peer& peer = *found->second;
    for (Peer::Route& route : peer.routes) {
      for (const Token token : route.eager.take_delayed())
        happened_.push_back(SendFinished{token, outcome_of(UCS_ERR_CONNECTION_RESET, &peer)});
    }
    for (const Peer::QueuedMessage& message : std::exchange(peer.queued, {}))
      happened_.push_back(SendFinished{message.token, outcome_of(UCS_ERR_CONNECTION_RESET, &peer)});
    // Closes before discarding, so that discarded messages do not count as received.
    if (!close(peer, UcxWorker::Close::kForce)) lingering_.push_back(&peer);
    for (auto it = incoming_.begin(); it != incoming_.end();) {
      // Complete messages of a lost peer may still be received.
      if (it->second.sender != peer.id ||
          (it->second.descriptor == nullptr && peer.end == Peer::End::kFailed)) {
        ++it;
        continue;
      }
      discard(it->second);
      it = incoming_.erase(it);
    }
    retired_.push_back(std::move(found->second));
    peers_.erase(found);
  }

  static void on_peer_error(void* argument, ucp_ep_h endpoint, ucs_status_t status) {
    static_cast<Peer*>(argument)->end_connections(
        [&](const Peer::Connection& connection) { return connection.endpoint == endpoint; },
        text_of(status, static_cast<Peer*>(argument)));
  }
  static void on_sent(void* handle, ucs_status_t status, void* user_data) {
    auto& request = *static_cast<Request*>(user_data);
    request.wire->finish_send(request, status);
    ucp_request_free(handle);
  }
  static void on_received(void* handle, ucs_status_t status, std::size_t, void* user_data) {
    auto& request = *static_cast<Request*>(user_data);
    request.wire->finish_receive(request, status);
    ucp_request_free(handle);
  }
  static ucs_status_t on_message(void* argument, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* params) {
    auto& side = *static_cast<WorkerSet::RailWorker*>(argument);
    return static_cast<UcxWire*>(side.owner)
        ->arrived(side, {static_cast<const std::byte*>(header), header_bytes}, data, bytes,
                  (params->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
  }

  void control_arrived(Peer& peer, const WorkerSet::RailWorker& side, const WireHeader& prefix) {
    if (peer.path != side.path || side.route >= peer.routes.size()) return;
    Peer::Route& route = peer.routes[side.route];
    for (const Token token :
         route.eager.told(static_cast<WireHeader::Kind>(prefix.kind), prefix.value))
      happened_.push_back(SendFinished{token, {}});
    if (prefix.kind != WireHeader::kGoodbye) return;
    peer.end_connections(
        [&](const Peer::Connection& connection) { return connection.worker == &side.worker; },
        "it closed the connection");
  }

  /// Returns true if the message comes from the device that it names. Caches the devices' proofs.
  bool has_valid_proof(const WireHeader& prefix) {
    const DeviceId sender(prefix.sender);
    const auto known = proofs_.find(sender);
    const SenderProof expected =
        known != proofs_.end() ? known->second : proof_of_sender(options_.secret, sender, self_);
    if (!equal_in_constant_time(expected, prefix.proof)) return false;
    if (known == proofs_.end()) proofs_.emplace(sender, expected);
    return true;
  }

  ucs_status_t refuse(std::optional<DeviceId> claimed, std::string_view why) {
    if (events_ != nullptr && !ending_) events_->message_refused(claimed, why);
    return UCS_OK;  // UCX frees the data
  }

  ucs_status_t arrived(WorkerSet::RailWorker& side, std::span<const std::byte> header, void* data,
                       std::size_t bytes, bool rendezvous) {
    const std::optional<WireHeader> parsed = WireHeader::parse(header);
    if (!parsed || header.size() > sizeof(WireHeader) + kMaxHeaderBytes)
      return refuse(
          std::nullopt,
          fmt::format("its header of {} bytes is not of this version of Weft", header.size()));
    const WireHeader& prefix = *parsed;
    if (!has_valid_proof(prefix))
      return refuse(DeviceId(prefix.sender), "its sender does not know the secret of this run");
    if (prefix.kind == WireHeader::kHello) hello_arrived(DeviceId(prefix.sender), side.worker);
    if (ending_) return UCS_OK;
    if (prefix.kind != WireHeader::kMessage) {
      if (const auto found = peers_.find(DeviceId(prefix.sender)); found != peers_.end())
        control_arrived(*found->second, side, prefix);
      return UCS_OK;
    }
    const MessageId id(next_message_++);
    Incoming& incoming = incoming_[id];
    incoming.sender = DeviceId(prefix.sender);
    incoming.side = &side;
    incoming.bytes = bytes;
    Message message{id, incoming.sender, header.subspan(sizeof(WireHeader)), bytes, {}};
    if (rendezvous) {
      incoming.descriptor = data;
    } else {
      incoming.in_callback = static_cast<const std::byte*>(data);
      message.payload = {incoming.in_callback, bytes};
    }
    in_callback_ = id;
    callback_status_ = UCS_OK;
    events_->message_arrived(message);
    in_callback_ = MessageId(0);
    if (const auto kept = incoming_.find(id); kept != incoming_.end()) {
      if (rendezvous) return UCS_INPROGRESS;
      kept->second.copy.reset(new std::byte[bytes]);
      if (bytes != 0) std::memcpy(kept->second.copy.get(), data, bytes);
      kept->second.in_callback = nullptr;
      if (!kept->second.told) send_arrived_notice(kept->second);
    }
    return callback_status_;
  }

  const DeviceId self_;
  const HostId host_;
  const UcxOptions options_;
  const int wake_fd_;
  const std::string network_;  // networks of this process, for messages
  WireEvents* events_ = nullptr;
  std::vector<std::byte> address_;
  std::map<DeviceId, std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Peer>> retired_;
  std::vector<Peer*> lingering_;  // retired, some connections not closed yet
  // hellos of proven devices to which this device has not connected yet
  std::set<std::pair<DeviceId, const UcxWorker*>> early_hellos_;
  std::map<DeviceId, SenderProof> proofs_;  // proofs that devices have shown
  std::unordered_map<MessageId, Incoming> incoming_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<Request*> free_requests_;
  std::deque<Happened> happened_;
  std::uint64_t next_message_ = 1;
  std::size_t sends_under_way_ = 0;
  MessageId in_callback_;  // message whose message_arrived() runs
  ucs_status_t callback_status_ = UCS_OK;
  bool ending_ = false;
  // Declared last and so destroyed first: its callbacks use the members above.
  WorkerSet workers_;
};

std::unique_ptr<Wire> make_ucx_wire(DeviceId self, HostId host, const UcxOptions& options) {
  if (options.secret.empty())
    throw_error(ErrorCode::kInvalidArgument,
                "the wire of device {} has no secret; set UcxOptions::secret, or any process could "
                "send to it",
                self);
  return std::make_unique<UcxWire>(self, host, options);
}

}  // namespace weft::transfer
