#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "actors/link/handshake.h"
#include "actors/link/link.h"
#include "actors/link/token_keyring.h"
#include "actors/net/tls.h"
#include "actors/system/actor_host.h"
#include "actors/system/internal/pending_calls.h"
#include "actors/system/system.h"
#include "core/base/thread.h"
#include "core/log/log_limit.h"

namespace weft::actors {

/// Arguments of a spawn: a call of actor 0, method kSpawn.
struct SpawnRequest {
  std::string interface;
  std::uint32_t version = 0;
  std::uint64_t fingerprint = 0;
  std::string label;
  MeshPosition place;
  std::vector<std::byte> arguments;
  bool adopt_existing = false;  // adopts the actor of that label instead of spawning one
  static constexpr auto fields =
      weft::fields(&SpawnRequest::interface, &SpawnRequest::version, &SpawnRequest::fingerprint,
                   &SpawnRequest::label, &SpawnRequest::place, &SpawnRequest::arguments,
                   &SpawnRequest::adopt_existing);
};

/// Methods that the system itself answers, as the actor with id 0.
enum class SystemMethod : std::uint32_t {
  kSpawn = 0,
  kStop = 1,
  kReport = 2,
  kToken = 3,
  kSurvey = 4,
};

/// Next token of a cluster, sent in a one-way call of kToken. The token of the highest generation
/// counts.
struct TokenMessage {
  std::uint64_t generation = 0;
  Secret::Bytes token{};
  static constexpr auto fields = weft::fields(&TokenMessage::generation, &TokenMessage::token);
};

/// Method name of survey calls, which surveys do not list.
inline constexpr const char* kSurveyMethod = "survey";

/// Route of calls within this process: the same order, credit and encoding, without a socket.
class LocalRoute final : public Route, public std::enable_shared_from_this<LocalRoute> {
 public:
  explicit LocalRoute(System::Impl& system) : system_(system) {}
  ProcessRef peer() const override;
  void reply(Reply reply, bool more) override;
  void grant(const Credit& credit) override { on_credit(credit); }

 protected:
  std::optional<Error> transmit(OutgoingCall& outgoing) override;
  void request_credit(ActorId actor) override;
  void flush(bool) override {}

 private:
  System::Impl& system_;
};

/// Implementation of System. One object, three concerns, each with its part of the data:
///   links   connected peers         loop's thread; the map also under routes_mutex, for callers
///   hosts   actors of this process  under hosts_mutex
///   calls   pending calls           PendingCalls has its own lock
struct System::Impl final : public LinkEvents, public CallOwner {
  Impl(System& system, SystemOptions system_options);
  ~Impl();

  // calls
  std::shared_ptr<CallState> call(const std::shared_ptr<const ActorAddress>& target,
                                  const char* method_name, Call call, Nanoseconds within);
  bool tell(const std::shared_ptr<const ActorAddress>& target, Call call);
  void withdraw(const CallState& call) override;
  void finish(Reply reply);
  void arm_deadlines(TimePoint at);
  void expire();

  // surveys
  class SurveyAnswers;
  ProcessSurvey survey_itself();
  void forward_survey(const SurveyTarget& target, Nanoseconds within,
                      const std::shared_ptr<SurveyAnswers>& answers);
  void answer_survey(const SurveyRequest& request,
                     std::function<void(Outcome<std::vector<std::byte>>)> answer);

  // hosts
  /// Delivers a call to its actor. Returns the reason of a refusal.
  std::optional<Error> deliver(Envelope envelope);
  std::optional<Error> answer_system_call(Envelope envelope);
  ActorAddress spawn(Provider provider, ActorId id, std::string label, MeshPosition place,
                     ProcessId owner, std::vector<std::byte> arguments,
                     std::function<void(Outcome<std::vector<std::byte>>)> constructed);
  std::shared_ptr<ActorHost> find_host(ActorId id);
  bool is_closing();
  /// Makes `to` the owner of an actor and closes the link to the previous owner.
  ActorAddress transfer_actor(const SpawnRequest& request, ProcessId to);
  void remove_actor(ActorId id);

  // links
  std::shared_ptr<Route> route_to(const ProcessRef& process);
  /// Returns true if this is still the link to its peer.
  bool is_known(const std::shared_ptr<Link>& link) const;
  enum class Attempt { kFirst, kAgain };
  void dial_peer(const std::shared_ptr<Link>& link, Attempt attempt = Attempt::kFirst);
  /// Starts a handshake. Processes other than `wanted` refuse it.
  void start_handshake(std::shared_ptr<Connection> connection, Handshake::Side side,
                       std::function<void(Handshake&, Handshake::Answer)> done,
                       ExpectedPeer wanted = {});
  void on_handshake(Handshake& handshake, PeerDescription other);
  void refuse(Handshake& handshake, const Reject& reject);
  void log_refusal(const Address& from, const std::string& why);
  /// Logs a warning, at most once in 10 s.
  void warn_of_refused_peer(const std::string& text);
  /// Returns whether a process may accept a connection for `wanted`. routes_mutex is held.
  bool is_wanted(ProcessId process, const ExpectedPeer& wanted) const {
    return (wanted.process == ProcessId() || wanted.process == process) &&
           (!wanted.head || head == process);
  }
  /// Returns how a connection to that address is protected.
  DialTls protection_of(const Address& address);
  // tokens: the loop's thread
  /// Proves `next` from now on; accepts the former token for `former_for`, from `members`.
  void adopt_token(const Secret& next, std::uint64_t generation, Nanoseconds former_for,
                   std::optional<std::set<ProcessId>> members);
  /// Sends the token to peers over private links. Adds the names of all peers to `report`, if any.
  void broadcast_token(System::TokenReplacement* report);
  void send_token(const Link& link);
  void on_token(const TokenMessage& message, ProcessId from);
  void adopt(const std::shared_ptr<Link>& link, Handshake& handshake, PeerDescription other,
             bool dialled_here);
  void drop_link(const std::shared_ptr<Link>& link, const Error& reason,
                 DisconnectCause how = DisconnectCause::kEnded);
  void fail_pending_calls(ProcessId process, const Error& reason);
  /// Marks the process as dead for good. The first reason stays, unless this is `better` evidence.
  /// routes_mutex is held.
  void mark_dead(ProcessId process, const Error& reason, bool better);
  void send_heartbeats();
  void repeat(Nanoseconds interval, const std::shared_ptr<std::function<void()>>& callback);
  PeerDescription introduce() const;
  void on_call(Link& link, Call call) override;
  void on_reply(Link& link, Reply reply) override;
  void on_cancel(Link& link, std::uint64_t call_id) override;
  void on_credit_request(Link& link, ActorId actor) override;
  void on_ended(Link& link, EndCause how, const Error& reason) override;

  void require_token() const;
  void schedule(Nanoseconds delay, std::function<void()> callback);
  void shut_down();

  System& owner;
  const SystemOptions options;
  mutable Mutex token_mutex;  // guards current_token
  Secret current_token;
  // address and interfaces change until listen() and connect(), then they are fixed
  PeerDescription self;
  mutable Mutex self_mutex;  // guards self.process.address and self.interfaces
  std::vector<Provider> providers;

  std::function<void(const ProcessRef&, const Error&, DisconnectCause)> peer_lost;
  std::function<void(const ProcessRef&)> peer_suspect;
  std::function<void(const ProcessRef&, Nanoseconds)> peer_timed_out;
  std::function<void(const ProcessRef&, std::optional<Nanoseconds>)> peer_suspected;

  PendingCalls pending;
  const std::shared_ptr<LocalRoute> local;  // shared with pending calls

  // guards hosts, next_actor, closing and ending
  Mutex hosts_mutex;
  // shared with pending deliveries
  std::unordered_map<ActorId, std::shared_ptr<ActorHost>> hosts;
  std::uint64_t next_actor = 1;
  std::optional<std::pair<std::string, TimePoint>> ending;  // reason and time of this process's end
  bool closing = false;

  // guards links, dead_peers and head; only the loop's thread changes them, except to add a link
  mutable Mutex routes_mutex;
  Condition link_attached;
  std::unordered_map<ProcessId, std::shared_ptr<Link>> links;  // shared with pending replies
  // reasons of the last kDeadPeers processes that died
  std::unordered_map<ProcessId, Error> dead_peers;
  std::deque<ProcessId> dead_peer_order;  // keys of dead_peers, oldest first
  ProcessId head;  // last process that accepted a connection for the cluster's head; 0: none

  // Used by the loop's thread.
  // Handshakes in the order in which they began. Shared with the loop, which drops one after its
  // last callback.
  std::map<std::uint64_t, std::shared_ptr<Handshake>> incoming_handshakes;
  std::map<std::uint64_t, std::shared_ptr<Handshake>> outgoing_handshakes;
  std::uint64_t next_handshake = 0;
  const SteadyClock clock;
  LogLimit refusals{clock, std::chrono::seconds(10)};
  std::function<void(const std::string&)> refused;
  TokenKeyring tokens;
  TlsPolicy tls;
  std::unordered_map<ProcessId, std::function<void()>> dials;  // cancel a dial
  std::set<std::shared_ptr<Timer>> timers;
  std::unique_ptr<Timer> deadline_timer;
  TimePoint deadline_armed = TimePoint::max();

  Mutex connect_mutex;  // serialises connect()
  // Declared after all members that its thread uses. Its end drops queued callbacks.
  EventLoop loop;
  std::unique_ptr<Listener> listener;
};

}  // namespace weft::actors
