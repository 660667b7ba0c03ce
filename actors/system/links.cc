// Links of the System: connecting, handshakes, and lost processes.

#include <fmt/format.h>

#include "actors/system/internal/runtime.h"

namespace weft::actors {

namespace {
/// Limit of incoming connections without a proven token. One more replaces the oldest, so that a
/// peer that proves itself at once gets in beside any number that do not.
constexpr std::size_t kMaxIncomingHandshakes = 256;
/// Maximum age of a connection for another one from the same process to count as a duplicate: two
/// of its threads dialled. A process that lost its connection takes longer to notice that.
constexpr auto kDuplicateDialWindow = std::chrono::seconds(3);
/// Delay of a timer that shows that this process did not run.
constexpr auto kLateTimer = std::chrono::milliseconds(200);
/// Limit of the remembered dead peers. A head runs for months; the oldest do not return.
constexpr std::size_t kDeadPeers = 4096;

/// Sets the host of a process that listens on every address: the one that its connection comes
/// from.
void complete_address(PeerDescription& other, const Connection& connection) {
  Address& address = other.process.address;
  if (address.port != 0 &&
      (address.host.empty() || address.host == "0.0.0.0" || address.host == "::"))
    address.host = connection.peer_address().host;
}
}  // namespace

PeerDescription System::Impl::introduce() const {
  const std::lock_guard lock(self_mutex);
  return self;
}

std::shared_ptr<Route> System::Impl::route_to(const ProcessRef& process) {
  if (process.id == self.process.id) return local;
  const std::lock_guard lock(routes_mutex);
  if (const auto found = links.find(process.id); found != links.end()) return found->second;
  if (const auto dead = dead_peers.find(process.id); dead != dead_peers.end()) throw dead->second;
  if (process.address.port == 0)
    throw_error(ErrorCode::kUnavailable,
                "{} is not connected and does not listen, so this process cannot connect to it",
                process.name);
  auto link = std::make_shared<Link>(process, *this, options.beat_interval);
  links.emplace(process.id, link);
  loop.post([this, link] { dial_peer(link); });
  return link;
}

bool System::Impl::is_known(const std::shared_ptr<Link>& link) const {
  const std::lock_guard lock(routes_mutex);
  const auto found = links.find(link->peer_id());
  return found != links.end() && found->second == link;
}

void System::Impl::dial_peer(const std::shared_ptr<Link>& link, Attempt attempt) {
  const ProcessId id = link->peer_id();
  const TimePoint deadline = SteadyClock().now() + options.connect_within;
  dials[id] = dial(
      loop, link->peer().address, deadline, Retry::kNever,
      {[this, link, deadline, attempt](std::shared_ptr<Connection> connection) {
         dials.erase(link->peer_id());
         if (link->attached()) return;  // the other side connected first
         start_handshake(
             std::move(connection), Handshake::Side::kDialler,
             [this, link, deadline, attempt, begun = SteadyClock().now()](
                 Handshake& handshake, Handshake::Answer answer) {
               // A link that was lost meanwhile stays lost.
               if (link->attached() || !is_known(link)) return;
               if (auto* other = std::get_if<PeerDescription>(&answer)) {
                 if (other->process.id != link->peer_id())
                   return drop_link(link, Error(ErrorCode::kPeerDied,
                                                fmt::format("{} has exited: {} now listens at {}",
                                                            link->peer().name, describe(*other),
                                                            to_string(link->peer().address))));
                 if (const auto reject = find_incompatibility(introduce(), *other))
                   return drop_link(link, to_error(*reject));
                 return adopt(link, handshake, std::move(*other), true);
               }
               if (const auto* reject = std::get_if<Reject>(&answer)) {
                 if (!reject->authenticated || !reject->duplicate)
                   return drop_link(link, to_error(*reject));
                 // The peer's own connection is under way and replaces this one.
                 return schedule(deadline - SteadyClock().now(), [this, link] {
                   if (!link->attached())
                     drop_link(link,
                               Error(ErrorCode::kUnavailable,
                                     fmt::format("{} did not connect in time", link->peer().name)));
                 });
               }
               // This process was stopped, and the other one has timed out.
               if (attempt == Attempt::kFirst &&
                   SteadyClock().now() - begun > Handshake::kTimeLimit + kLateTimer)
                 return dial_peer(link, Attempt::kAgain);
               drop_link(link, Error(ErrorCode::kUnavailable,
                                     fmt::format("cannot reach {}: {}", link->peer().name,
                                                 std::get<Error>(answer).message())));
             },
             {false, link->peer_id()});
       },
       [this, link](const Error& error) {
         dials.erase(link->peer_id());
         if (!link->attached())
           drop_link(link, Error(error.code(), fmt::format("cannot reach {}: {}", link->peer().name,
                                                           error.message())));
       }},
      protection_of(link->peer().address));
}

DialTls System::Impl::protection_of(const Address& address) {
  DialTls protection{&tls, ""};
  const auto& pinned = options.pinned;
  if (pinned && pinned->at == address && (pinned->also_on_loopback || !is_loopback(address.host)))
    protection.certificate = pinned->sha256;
  return protection;
}

void System::Impl::start_handshake(std::shared_ptr<Connection> connection, Handshake::Side side,
                                   std::function<void(Handshake&, Handshake::Answer)> done,
                                   ExpectedPeer wanted) {
  auto& handshakes = side == Handshake::Side::kAcceptor ? incoming_handshakes : outgoing_handshakes;
  if (side == Handshake::Side::kAcceptor && handshakes.size() >= kMaxIncomingHandshakes) {
    const auto oldest = handshakes.begin();
    log_refusal(oldest->second->connection()->peer_address(),
                fmt::format("too many unauthenticated connections ({}); the oldest was closed",
                            kMaxIncomingHandshakes));
    handshakes.erase(oldest);
  }
  const std::uint64_t number = next_handshake++;
  // The callback holds only a weak pointer, as the handshake owns the callback.
  const auto itself = std::make_shared<std::weak_ptr<Handshake>>();
  auto handshake = std::make_shared<Handshake>(
      loop, std::move(connection), side, tokens.usable(clock.now()),
      [this, itself, number, &handshakes, done = std::move(done)](Handshake::Answer answer) {
        const std::shared_ptr<Handshake> finished = itself->lock();
        handshakes.erase(number);
        done(*finished, std::move(answer));
        // destroyed later: a function of it is still running
        loop.post([finished] {});
      });
  *itself = handshake;
  handshakes.emplace(number, handshake);
  PeerDescription me = introduce();
  me.wanted = wanted;
  handshake->start(std::move(me));
}

void System::Impl::refuse(Handshake& handshake, const Reject& reject) {
  if (!reject.duplicate) log_refusal(handshake.connection()->peer_address(), reject.text);
  handshake.refuse(reject);
}

void System::Impl::log_refusal(const Address& from, const std::string& why) {
  warn_of_refused_peer(fmt::format("refused a connection from {}: {}", to_string(from), why));
}

void System::Impl::warn_of_refused_peer(const std::string& what) {
  const auto held_back = refusals.admit();
  if (!held_back) return;
  const std::string text =
      what + (*held_back == 0
                  ? ""
                  : fmt::format(" ({} more refusals since the last such line)", *held_back));
  options.log.warning("{}", text);
  if (refused) refused(text);
}

void System::Impl::on_handshake(Handshake& handshake, PeerDescription other) {
  const PeerDescription me = introduce();
  complete_address(other, *handshake.connection());
  if (const auto reject = find_incompatibility(me, other)) return refuse(handshake, *reject);
  if (!tokens.admits(token_id(handshake.token()), other.process.id, clock.now()))
    return refuse(handshake,
                  Reject{ErrorCode::kFailedPrecondition,
                         fmt::format("{} uses a token that was replaced, and was not connected to "
                                     "the cluster at that time",
                                     describe(other)),
                         "give it the new one, of the file that `weft head` has named", false,
                         me.process.id});
  // A connection that is meant for another process must not replace one to this process.
  if (other.wanted.head && !options.is_head)
    return refuse(handshake,
                  Reject{ErrorCode::kUnavailable,
                         fmt::format("{} tried to connect to a head, but {} is not a head",
                                     describe(other), describe(me)),
                         "give the address that `weft head` has printed", false, me.process.id});
  if (other.wanted.process != ProcessId() && other.wanted.process != me.process.id)
    return handshake.refuse(
        Reject{ErrorCode::kPeerDied,
               fmt::format("the requested process has exited: {} now listens at {}",
                           me.process.name, to_string(me.process.address)),
               "", false, me.process.id});
  std::shared_ptr<Link> existing;
  {
    const std::lock_guard lock(routes_mutex);
    if (const auto dead = dead_peers.find(other.process.id); dead != dead_peers.end()) {
      return refuse(handshake, Reject{ErrorCode::kFailedPrecondition,
                                      fmt::format("{} has declared {} dead: {}", me.process.name,
                                                  describe(other), dead->second.message()),
                                      "start the process again", false, me.process.id});
    }
    if (const auto found = links.find(other.process.id); found != links.end())
      existing = found->second;
  }
  if (existing && existing->ended()) {
    drop_link(existing,
              Error(ErrorCode::kPeerDied,
                    fmt::format("{} lost its connection and reconnected", describe(other))),
              DisconnectCause::kDisconnected);
    existing = nullptr;
  }
  if (existing && (!existing->attached() || existing->dialled_here()) &&
      me.process.id < other.process.id) {
    // Both dialled at once: the connection of the process with the smaller id stays.
    return refuse(handshake, Reject{ErrorCode::kAlreadyExists, "both processes connect at once", "",
                                    true, me.process.id});
  }
  if (existing && existing->attached() &&
      clock.now() - existing->attached_at() < kDuplicateDialWindow) {
    return refuse(handshake, Reject{ErrorCode::kAlreadyExists, "this process has just connected",
                                    "", true, me.process.id});
  }
  if (existing && existing->attached()) {
    drop_link(existing, Error(ErrorCode::kPeerDied, fmt::format("{} reconnected", describe(other))),
              DisconnectCause::kDisconnected);
    existing = nullptr;
  }
  if (existing) {
    if (const auto dialling = dials.find(other.process.id); dialling != dials.end()) {
      dialling->second();
      dials.erase(dialling);
    }
  } else {
    const std::lock_guard lock(routes_mutex);
    existing = links
                   .try_emplace(other.process.id,
                                std::make_shared<Link>(other.process, *this, options.beat_interval))
                   .first->second;
  }
  append_message(*handshake.connection(), MessageKind::kWelcome, {});
  adopt(existing, handshake, std::move(other), false);
}

void System::Impl::adopt(const std::shared_ptr<Link>& link, Handshake& handshake,
                         PeerDescription other, bool dialled_here) {
  if (other.minor != kProtocolMinor)
    options.log.info("{} speaks protocol {}.{}, this process {}.{}: both use the lower one",
                     describe(other), kProtocolMajor, other.minor, kProtocolMajor, kProtocolMinor);
  const bool is_behind = token_id(handshake.token()) != token_id(tokens.current());
  auto connection = handshake.release();
  link->attach(connection, std::move(other), dialled_here);
  // The peer has proven a former token: it does not know the new one, or this process does not.
  if (is_behind && tokens.generation() != 0 && link->is_private()) send_token(*link);
  connection->flush();
  const std::lock_guard lock(routes_mutex);
  link_attached.notify_all();
}

void System::Impl::on_call(Link& link, Call call) {
  const std::uint64_t id = call.id;
  const TimePoint deadline = call.remaining_ns == 0
                                 ? TimePoint::max()
                                 : SteadyClock().now() + Nanoseconds(call.remaining_ns);
  const auto route = link.shared_from_this();
  if (auto error = deliver({std::move(call), route, deadline}); error && id != 0)
    link.reply({id, std::move(*error)}, true);
}

void System::Impl::on_reply(Link&, Reply reply) { finish(std::move(reply)); }

void System::Impl::on_cancel(Link& link, std::uint64_t call_id) {
  std::vector<std::shared_ptr<ActorHost>> all;
  {
    const std::lock_guard lock(hosts_mutex);
    for (const auto& [id, host] : hosts) all.push_back(host);
  }
  for (const auto& host : all) host->cancel(&link, call_id);
}

void System::Impl::on_credit_request(Link& link, ActorId actor) {
  const auto host = find_host(actor);
  if (!host) return;
  if (const auto credit = host->mailbox()->request_report(&link)) link.grant(*credit);
}

void System::Impl::on_ended(Link& link, EndCause how, const Error& reason) {
  const auto shared = link.shared_from_this();
  if (how == EndCause::kProtocolError && reason.code() == ErrorCode::kDataLoss)
    warn_of_refused_peer(reason.message());
  if (how != EndCause::kEof) {
    if (how == EndCause::kExited) {
      const std::lock_guard lock(routes_mutex);
      mark_dead(link.peer_id(), reason, false);
    }
    return drop_link(
        shared, reason,
        how == EndCause::kExited ? DisconnectCause::kSaidGoodbye : DisconnectCause::kDisconnected);
  }
  if (peer_suspect) peer_suspect(link.peer());
  // A dialler that gave up before Welcome closes, too, and tries again.
  const DisconnectCause loss =
      link.has_received() ? DisconnectCause::kEnded : DisconnectCause::kDisconnected;
  schedule(options.eof_grace, [this, shared, reason, loss] { drop_link(shared, reason, loss); });
}

void System::Impl::drop_link(const std::shared_ptr<Link>& link, const Error& reason,
                             DisconnectCause how) {
  {
    const std::lock_guard lock(routes_mutex);
    const auto found = links.find(link->peer_id());
    if (found == links.end() || found->second != link) return;  // lost already
    links.erase(found);
  }
  if (const auto dialling = dials.find(link->peer_id()); dialling != dials.end()) {
    dialling->second();
    dials.erase(dialling);
  }
  const bool was_connected =
      !link->introduction().process.name.empty() || link->introduction().pid != 0;
  link->close_connection(reason);
  fail_pending_calls(link->peer_id(), reason);
  std::vector<std::shared_ptr<ActorHost>> all;
  {
    const std::lock_guard lock(hosts_mutex);
    for (const auto& [id, host] : hosts) all.push_back(host);
  }
  for (const auto& host : all) {
    host->mailbox()->remove_sender(link.get());
    if (!was_connected || host->owner() != link->peer_id()) continue;
    if (options.keep_actors_without_owner && how != DisconnectCause::kSaidGoodbye)
      host->cancel_calls_of(link->peer_id());
    else host->stop();
  }
  if (was_connected && peer_lost) peer_lost(link->peer(), reason, how);
}

void System::Impl::mark_dead(ProcessId process, const Error& reason, bool better) {
  const auto [dead, is_new] = dead_peers.try_emplace(process, reason);
  if (!is_new && better) dead->second = reason;
  if (!is_new) return;
  dead_peer_order.push_back(process);
  if (dead_peer_order.size() <= kDeadPeers) return;
  dead_peers.erase(dead_peer_order.front());
  dead_peer_order.pop_front();
}

void System::Impl::fail_pending_calls(ProcessId process, const Error& reason) {
  for (const auto& state : pending.take_all_of(process))
    state->fail(with_call_outcome(reason, *state));
}

void System::Impl::send_heartbeats() {
  std::vector<std::shared_ptr<Link>> all;
  {
    const std::lock_guard lock(routes_mutex);
    for (const auto& [id, link] : links) all.push_back(link);
  }
  for (const auto& link : all) {
    if (!link->attached()) continue;
    const Nanoseconds silent = link->send_heartbeat();
    const bool quiet = silent > options.suspect_after;
    if (link->set_suspected(quiet) != quiet && peer_suspected)
      peer_suspected(link->peer(), quiet ? std::optional(silent) : std::nullopt);
    if (silent <= options.dead_after) continue;
    if (peer_timed_out) peer_timed_out(link->peer(), silent);
    const double seconds = in_seconds(silent);
    link->say_goodbye({fmt::format("no data received for {:.1f} s", seconds), true});
    drop_link(
        link,
        Error(ErrorCode::kPeerDied,
              fmt::format("{} has been silent for {:.1f} s: it is stopped, overloaded, or cut off",
                          describe(link->introduction()), seconds)),
        DisconnectCause::kDisconnected);
  }
}

}  // namespace weft::actors
