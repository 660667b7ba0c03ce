#include "transfer/wire_ucx/ucx_wire.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "transfer/wire_ucx/internal/message_receiver.h"
#include "transfer/wire_ucx/internal/message_sender.h"
#include "transfer/wire_ucx/internal/network_text.h"
#include "transfer/wire_ucx/internal/peer.h"
#include "transfer/wire_ucx/internal/peer_table.h"
#include "transfer/wire_ucx/internal/ucx_address.h"
#include "transfer/wire_ucx/internal/ucx_outcome.h"
#include "transfer/wire_ucx/internal/wire_event_queue.h"
#include "transfer/wire_ucx/internal/wire_header.h"
#include "transfer/wire_ucx/internal/worker_set.h"

namespace weft::transfer {
namespace {

// Time that the destructor waits for the last messages to leave.
constexpr auto kFlushTime = std::chrono::milliseconds(200);

}  // namespace

/// Implementation of make_ucx_wire(): connects peers, proves and checks who sends, and waits.
///
///   owner ─ send() ─▶ MessageSender ─▶ UCX ─ callbacks ─▶ WireEventQueue ─ progress() ─▶ owner
///   UCX ─ message ─▶ UcxWire::arrived() ─▶ MessageReceiver ─▶ owner
///
/// MessageReceiver uses PeerTable, and both use MessageSender.
class UcxWire final : public Wire {
 public:
  UcxWire(DeviceId self, HostId host, const UcxOptions& options)
      : self_(self),
        host_(host),
        options_(options),
        wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        network_(describe_network(options.interfaces)),
        sender_(self, happened_),
        peers_(sender_),
        receiver_(peers_, sender_, happened_),
        workers_(options.interfaces, &on_message, this) {
    WEFT_CHECK(wake_fd_ >= 0, "eventfd: {}", std::strerror(errno));
    const WorkerSet::RailWorker* shm = workers_.shared_memory();
    address_ = encode(UcxAddress::of(
        self_, host_, workers_.rail_addresses(),
        shm != nullptr ? shm->worker.address() : std::vector<std::byte>(), network_));
  }

  ~UcxWire() override {
    // Cuts connections with messages that were never taken: they do not count as received.
    const std::set<DeviceId> untaken = receiver_.untaken_senders();
    happened_.close();
    bool closed = peers_.close_all(untaken);
    receiver_.discard_all();
    const auto until = std::chrono::steady_clock::now() + kFlushTime;
    while ((!closed || workers_.is_closing() || sender_.is_sending()) &&
           std::chrono::steady_clock::now() < until) {
      if (workers_.progress() == 0) wait(std::chrono::milliseconds(5));
      peers_.continue_opening();
      closed = peers_.close_all(untaken);
    }
    ::close(wake_fd_);
  }

  DeviceId self() const override { return self_; }
  std::vector<std::byte> address() const override { return address_; }
  void set_events(WireEvents& events) override { events_ = &events; }

  void connect(DeviceId peer, HostId host, std::span<const std::byte> bytes) override {
    if (peers_.find(peer) != nullptr) return;
    const UcxAddress address = UcxAddress::parse(peer, bytes);
    const bool near = host == host_ && workers_.shared_memory() != nullptr && !address.shm.empty();
    Peer& added = peers_.add(make_peer(peer, address, near));
    try {
      added.connect_endpoints(workers_, address, &on_peer_error);
    } catch (const Error& error) {
      added.end = Peer::End::kDropped;  // endpoints that exist already refer to the peer
      close_peer(added);
      if (near) throw;
      throw_error(ErrorCode::kUnavailable, "device {} at {}: {}; {}", peer, added.route_text,
                  error.message(), network_advice());
    }
    peers_.open(added);
  }

  void drop(DeviceId peer) override {
    Peer* const found = peers_.find(peer);
    if (found == nullptr) return;
    found->end = Peer::End::kDropped;
    close_peer(*found);
  }
  bool is_connected(DeviceId peer) const override {
    const Peer* const found = peers_.find(peer);
    return found != nullptr && found->end == Peer::End::kNone;
  }
  Path path_to(DeviceId peer) const override {
    const Peer* const found = peers_.find(peer);
    WEFT_CHECK(found != nullptr, "device {} is not connected", peer);
    return found->path;
  }

  void send(DeviceId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
            Token token) override {
    WEFT_CHECK(header.size() <= kMaxHeaderBytes, "header of {} bytes", header.size());
    Peer* const to = peers_.find(peer);
    if (to == nullptr || to->end != Peer::End::kNone)
      return happened_.push(SendFinished{
          token, Error(ErrorCode::kUnavailable, fmt::format("device {} is not connected", peer))});
    sender_.send(*to, header, payload, token);
  }
  void receive(MessageId message, std::span<std::byte> buffer, Token token) override {
    receiver_.receive(message, buffer, token);
  }
  void release(MessageId message) override { receiver_.release(message); }

  std::size_t progress() override {
    WEFT_CHECK(events_ != nullptr, "set_events() comes before progress()");
    const std::size_t done = workers_.progress();
    peers_.continue_opening();
    peers_.close_lingering();
    // Endpoint errors are reported inside the progress above, which may return 0 then.
    for (Peer* peer : peers_.find_failed()) {
      happened_.push(PeerLost{peer->id, Error(ErrorCode::kPeerDied, peer->cause)});
      close_peer(*peer);
    }
    return done + happened_.dispatch(*events_);
  }

  void wait(Nanoseconds timeout) override {
    if (!happened_.empty()) return;
    std::vector<pollfd> fds = {{wake_fd_, POLLIN, 0}};
    for (const auto& [id, peer] : peers_.connected()) {
      if (peer->process.fd() >= 0 && peer->end == Peer::End::kNone)
        fds.push_back({peer->process.fd(), POLLIN, 0});
      if (peer->first_ended) timeout = std::min<Nanoseconds>(timeout, kDrainTime);
    }
    workers_.wait(fds, timeout);
    if ((fds[0].revents & POLLIN) != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_fd_, &count, sizeof(count));
    }
    for (std::size_t i = 1; i < fds.size(); ++i)
      if (fds[i].revents != 0) process_ended(fds[i].fd);
  }

  std::uint64_t network_bytes_received() const override {
    return workers_.network_bytes_received();
  }

  void wake() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(wake_fd_, &one, sizeof(one));
  }

 private:
  /// Returns a peer without endpoints. `near`: it is reached over shared memory.
  std::unique_ptr<Peer> make_peer(DeviceId id, const UcxAddress& address, bool near) const {
    auto peer = std::make_unique<Peer>();
    peer->id = id;
    peer->proof = proof_of_sender(options_.secret, self_, id);
    peer->path = near ? Path::kSharedMemory : Path::kTcp;
    peer->eager_limit = near ? options_.shm_eager_bytes : options_.tcp_eager_bytes;
    peer->route_text = fmt::format("{}, from {}", address.network, network_);
    if (!near) return peer;
    peer->process = ProcessWatch(address.pid);
    if (peer->process.had_exited())
      peer->fail(fmt::format("its process, {}, has ended", address.pid));
    return peer;
  }

  /// Ends a peer's messages and closes its endpoints.
  void close_peer(Peer& peer) {
    sender_.fail_waiting(peer);
    // Closes before discarding, so that discarded messages do not count as received.
    peers_.retire(peer);
    receiver_.discard_messages_of(peer);
  }

  /// Fails the peer whose process a descriptor watches.
  void process_ended(int process_fd) {
    for (const auto& [id, peer] : peers_.connected()) {
      if (peer->process.fd() != process_fd) continue;
      for (Peer::UcxConnection* connection : peer->connections()) connection->ended = true;
      peer->fail(fmt::format("its process, {}, has ended", peer->process.pid()));
    }
  }

  static void on_peer_error(void* argument, ucp_ep_h endpoint, ucs_status_t status) {
    static_cast<Peer*>(argument)->end_connections(
        [&](const Peer::UcxConnection& connection) { return connection.endpoint == endpoint; },
        text_of(status, static_cast<Peer*>(argument)));
  }
  static ucs_status_t on_message(void* argument, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* params) {
    auto& side = *static_cast<WorkerSet::RailWorker*>(argument);
    return static_cast<UcxWire*>(side.owner)
        ->arrived(side, {static_cast<const std::byte*>(header), header_bytes}, data, bytes,
                  (params->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
  }

  ucs_status_t arrived(WorkerSet::RailWorker& side, std::span<const std::byte> header, void* data,
                       std::size_t bytes, bool rendezvous) {
    const std::optional<WireHeader> prefix = WireHeader::parse(header);
    if (!prefix || header.size() > sizeof(WireHeader) + kMaxHeaderBytes)
      return refuse(
          std::nullopt,
          fmt::format("its header of {} bytes is not of this version of Weft", header.size()));
    const DeviceId sender(prefix->sender);
    if (!has_valid_proof(sender, prefix->proof))
      return refuse(sender, "its sender does not know the secret of this run");
    if (prefix->kind == WireHeader::kHello || prefix->kind == WireHeader::kGreeting)
      peers_.hello_arrived(sender, side.worker, static_cast<WireHeader::Kind>(prefix->kind));
    if (happened_.is_closed()) return UCS_OK;
    if (prefix->kind == WireHeader::kMessage)
      return receiver_.arrived(side, sender, header.subspan(sizeof(WireHeader)), data, bytes,
                               rendezvous, *events_);
    if (Peer* const peer = peers_.find(sender)) control_arrived(*peer, side, *prefix);
    return UCS_OK;
  }

  void control_arrived(Peer& peer, const WorkerSet::RailWorker& side, const WireHeader& prefix) {
    if (peer.path != side.path || side.route >= peer.routes.size()) return;
    sender_.notice_arrived(peer.routes[side.route], static_cast<WireHeader::Kind>(prefix.kind),
                           prefix.value);
    if (prefix.kind != WireHeader::kGoodbye) return;
    peer.end_connections(
        [&](const Peer::UcxConnection& connection) { return connection.worker == &side.worker; },
        "it closed the connection");
  }

  /// Returns true if a message comes from the device that it names. Caches the devices' proofs.
  bool has_valid_proof(DeviceId sender, const SenderProof& proof) {
    const auto known = proofs_.find(sender);
    const SenderProof expected =
        known != proofs_.end() ? known->second : proof_of_sender(options_.secret, sender, self_);
    if (!equal_in_constant_time(expected, proof)) return false;
    if (known == proofs_.end()) proofs_.emplace(sender, expected);
    return true;
  }

  ucs_status_t refuse(std::optional<DeviceId> claimed, std::string_view why) {
    if (events_ != nullptr && !happened_.is_closed()) events_->message_refused(claimed, why);
    return UCS_OK;  // UCX frees the data
  }

  const DeviceId self_;
  const HostId host_;
  const UcxOptions options_;
  const int wake_fd_;
  const std::string network_;  // networks of this process, for messages
  WireEvents* events_ = nullptr;
  std::vector<std::byte> address_;
  std::map<DeviceId, SenderProof> proofs_;  // proofs that devices have shown
  WireEventQueue happened_;
  MessageSender sender_;
  PeerTable peers_;
  MessageReceiver receiver_;
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
