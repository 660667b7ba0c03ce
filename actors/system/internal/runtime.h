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
#include "actors/link/token_ring.h"
#include "actors/net/tls.h"
#include "actors/system/actor_host.h"
#include "actors/system/internal/pending_calls.h"
#include "actors/system/system.h"
#include "core/base/thread.h"
#include "core/log/log_limit.h"

namespace weft::actors {

/// What travels to spawn an actor: a call of actor 0, method kSpawn.
struct SpawnRequest {
  std::string interface;
  std::uint32_t version = 0;
  std::uint64_t fingerprint = 0;
  std::string label;
  Place place;
  std::vector<std::byte> arguments;
  bool takes_over = false;  // no new one, but the one of that label
  static constexpr auto fields =
      weft::fields(&SpawnRequest::interface, &SpawnRequest::version, &SpawnRequest::fingerprint,
                   &SpawnRequest::label, &SpawnRequest::place, &SpawnRequest::arguments,
                   &SpawnRequest::takes_over);
};

/// Calls that the system itself answers, of the actor with id 0.
enum class SystemMethod : std::uint32_t {
  kSpawn = 0,
  kStop = 1,
  kReport = 2,
  kToken = 3,
  kSurvey = 4,
};

/// A cluster's next token, from one process to another: a one-way call of kToken. Of several, the
/// one of the highest generation counts.
struct TokenMessage {
  std::uint64_t generation = 0;
  Secret::Bytes token{};
  static constexpr auto fields = weft::fields(&TokenMessage::generation, &TokenMessage::token);
};

/// The name of the calls by which processes ask each other what goes on: they are no part of it.
inline constexpr const char* kSurveyMethod = "survey";

/// The calls of this process to actors of this process: the same order, credit and encoding,
/// without a socket.
class LocalRoute final : public Route, public std::enable_shared_from_this<LocalRoute> {
 public:
  explicit LocalRoute(System::Impl& system) : system_(system) {}
  ProcessRef peer() const override;
  void reply(Reply reply, bool more) override;
  void grant(const Credit& credit) override { on_credit(credit); }

 protected:
  std::optional<Error> transmit(OutgoingCall& outgoing) override;
  void ask(ActorId actor) override;
  void flush(bool) override {}

 private:
  System::Impl& system_;
};

/// The System's inside. One object, three concerns, each with its part of the data:
///   links   who is connected          loop's thread; the map also under routes_mutex_, for callers
///   hosts   which actors live here    under hosts_mutex_
///   calls   who waits for what        PendingCalls has its own lock
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

  // what goes on
  class SurveyAnswers;
  ProcessSurvey survey_itself();
  void forward_survey(const SurveyTarget& target, Nanoseconds within,
                      const std::shared_ptr<SurveyAnswers>& answers);
  void answer_survey(const SurveyRequest& request,
                     std::function<void(Outcome<std::vector<std::byte>>)> answer);

  // hosts
  /// Hands a call to its actor; on refusal says why.
  std::optional<Error> deliver(Envelope envelope);
  std::optional<Error> answer_system_call(Envelope envelope);
  ActorAddress spawn(Provider provider, ActorId id, std::string label, Place place, ProcessId owner,
                     std::vector<std::byte> arguments,
                     std::function<void(Outcome<std::vector<std::byte>>)> constructed);
  std::shared_ptr<ActorHost> find_host(ActorId id);
  bool is_closing();
  /// Gives an actor whose owner is gone to another process.
  ActorAddress hand_over(const SpawnRequest& request, ProcessId to);
  void remove_actor(ActorId id);

  // links
  std::shared_ptr<Route> route_to(const ProcessRef& process);
  /// It is the link to its peer, and not one that was lost.
  bool is_known(const std::shared_ptr<Link>& link) const;
  enum class Attempt { kFirst, kAgain };
  void dial_peer(const std::shared_ptr<Link>& link, Attempt attempt = Attempt::kFirst);
  /// `wanted`: who has to be there; nobody else takes the connection for his.
  void start_handshake(std::shared_ptr<Connection> connection, Handshake::Side side,
                       std::function<void(Handshake&, Handshake::Answer)> done, Wanted wanted = {});
  void on_handshake(Handshake& handshake, Introduction other);
  void refuse(Handshake& handshake, const Reject& reject);
  void log_refusal(const Address& from, const std::string& why);
  /// At most one line in 10 s.
  void warn_of_stranger(const std::string& text);
  /// How a connection to that address is protected.
  DialTls protection_of(const Address& address);
  // tokens: the loop's thread
  /// Proves this one from here on.
  void adopt_token(const Secret& next, std::uint64_t generation, Nanoseconds former_for,
                   std::optional<std::set<ProcessId>> members);
  /// Those to whom it was and was not told go into `report`, if there is one.
  void spread_token(System::Replaced* report);
  void tell_token(const Link& link);
  void on_token(const TokenMessage& message, ProcessId from);
  void adopt(const std::shared_ptr<Link>& link, Handshake& handshake, Introduction other,
             bool dialled_here);
  void lose(const std::shared_ptr<Link>& link, const Error& reason, Loss how = Loss::kEnded);
  void forget(ProcessId process, const Error& reason);
  /// The process is dead for good: the first reason stays, unless this is `better` evidence.
  /// routes_mutex is held.
  void mark_dead(ProcessId process, const Error& reason, bool better);
  void beat();
  void repeat(Nanoseconds interval, const std::shared_ptr<std::function<void()>>& callback);
  Introduction introduce() const;
  void on_call(Link& link, Call call) override;
  void on_reply(Link& link, Reply reply) override;
  void on_cancel(Link& link, std::uint64_t call_id) override;
  void on_credit_request(Link& link, ActorId actor) override;
  void on_ended(Link& link, End how, const Error& reason) override;

  void require_token() const;
  void schedule(Nanoseconds delay, std::function<void()> callback);
  void shut_down();

  System& owner;
  const SystemOptions options;
  mutable Mutex token_mutex;  // guards current_token
  Secret current_token;
  // the address and the interfaces change until listen() and connect(); then fixed
  Introduction self;
  mutable Mutex self_mutex;  // guards self.process.address and self.interfaces
  std::vector<Provider> providers;

  std::function<void(const ProcessRef&, const Error&, Loss)> peer_lost;
  std::function<void(const ProcessRef&)> peer_suspect;
  std::function<void(const ProcessRef&, Nanoseconds)> peer_silent;
  std::function<void(const ProcessRef&, std::optional<Nanoseconds>)> peer_quiet;

  PendingCalls pending;
  const std::shared_ptr<LocalRoute> local;  // shared with calls under way

  // guards hosts, next_actor, closing and ending
  Mutex hosts_mutex;
  // shared with deliveries under way
  std::unordered_map<ActorId, std::shared_ptr<ActorHost>> hosts;
  std::uint64_t next_actor = 1;
  std::optional<std::pair<std::string, TimePoint>> ending;  // why this process ends, since when
  bool closing = false;

  // guards links and dead_peers; both are changed on the loop's thread only, but for a new link
  mutable Mutex routes_mutex;
  Condition link_attached;
  std::unordered_map<ProcessId, std::shared_ptr<Link>> links;  // shared with replies under way
  // of the last kDeadPeers processes that died
  std::unordered_map<ProcessId, Error> dead_peers;
  std::deque<ProcessId> dead_peer_order;  // the same, oldest first

  // The loop's thread.
  // Handshakes, in the order in which they began. Shared with the loop, which drops one after its
  // last callback.
  std::map<std::uint64_t, std::shared_ptr<Handshake>> unproven;  // of those that connect here
  std::map<std::uint64_t, std::shared_ptr<Handshake>> own_handshakes;
  std::uint64_t next_handshake = 0;
  const SteadyClock clock;
  LogLimit refusals{clock, std::chrono::seconds(10)};
  std::function<void(const std::string&)> refused;
  TokenRing tokens;
  Tls tls;
  std::unordered_map<ProcessId, std::function<void()>> dials;  // cancel
  std::set<std::shared_ptr<Timer>> timers;
  std::unique_ptr<Timer> deadline_timer;
  TimePoint deadline_armed = TimePoint::max();

  Mutex connect_mutex;  // one connect() at a time
  // Last but for the listener: its thread uses all of the above, and its end drops what is queued.
  EventLoop loop;
  std::unique_ptr<Listener> listener;
};

}  // namespace weft::actors
