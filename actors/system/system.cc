#include "actors/system/system.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <thread>
#include <tuple>

#include "actors/call/value_queue.h"
#include "actors/system/directory.h"
#include "actors/system/internal/call_tree.h"
#include "actors/system/internal/runtime.h"
#include "core/base/platform.h"

namespace weft::actors {
namespace {

/// Number of threads of shared actors, if handlers block some of them.
constexpr std::size_t kMaxSharedThreads = 64;
/// Number of `blocking` handlers that run at once.
constexpr std::size_t kMaxBlockingThreads = 256;

std::set<ActorKey> keys_of(const std::vector<ActorAddress>& actors) {
  std::set<ActorKey> keys;
  for (const ActorAddress& actor : actors) keys.insert(ActorKey::of(actor));
  return keys;
}

std::size_t num_shared_threads(const SystemOptions& options) {
  if (options.actor_threads != 0) return options.actor_threads;
  if (Platform::simulated() != nullptr) return 2;  // the same on all machines
  return std::max(2u, std::thread::hardware_concurrency());
}

}  // namespace

System::Impl::Impl(System& system, SystemOptions system_options)
    : options(std::move(system_options)),
      identity(options),
      timers(loop),
      tls(options.tls, options.identity),
      refusals(options.log),
      links(*this, options.beat_interval,
            [this](Link& link, const Error& reason, DisconnectCause how) {
              on_dropped(link, reason, how);
            }),
      token(options, loop, links),
      handshakes(loop, options.log, identity, links, token, refusals),
      dialer(options, loop, timers, tls, identity, links, handshakes),
      connector(options, loop, timers, tls, identity, links, handshakes),
      acceptor(options, loop, tls, identity, links, token, handshakes, refusals),
      failures(options, timers, links, refusals),
      shared_threads({"weft-actors", num_shared_threads(options), num_shared_threads(options),
                      std::max(num_shared_threads(options), kMaxSharedThreads)},
                     later()),
      blocking_threads({"weft-blocking", kMaxBlockingThreads, 0, kMaxBlockingThreads, true},
                       later()),
      actors(system, options, loop, timers, identity, shared_threads, blocking_threads),
      local(std::make_shared<LocalRoute>(identity, actors, incoming, calls)),
      calls(system, options, loop, timers, identity, links, dialer, actors, relocations, local),
      branches(calls),
      trees(loop, identity, links, relocations, calls, branches),
      relay(options, timers, identity, actors, calls, branches),
      surveys(identity, links, actors, calls),
      incoming(loop, timers, identity, links, token, actors, relocations, relay, surveys),
      loop("weft-io", options.io_share) {
  calls.set_trees(trees);
  local->open();
  loop.post([] { set_on_actor_thread(); });  // the I/O thread must not block in calls either
  failures.start();
  actors.on_exit([this](const ActorHost& actor, const std::string& reason) {
    incoming.report_exit(actor, reason);
  });
}

System::Impl::~Impl() = default;

ActorThreads::Schedule System::Impl::later() {
  return [this](Nanoseconds delay, std::function<void()> callback) {
    timers.run_after(delay, std::move(callback));
  };
}

void System::Impl::on_call(Link& link, Call call) {
  const std::uint64_t id = call.id;
  // The methods of the system itself have run.
  const auto state = call.actor == ActorId(0) ? ReplyState::kAnswered : ReplyState::kRefused;
  const TimePoint deadline = deadline_with_remaining(call.remaining_ns);
  const auto route = link.shared_from_this();
  if (call.order.number != 0) return relay.on_numbered_call(route, std::move(call), deadline);
  if (auto error = incoming.deliver({std::move(call), route, deadline}); error && id != 0)
    link.reply({id, std::move(*error), state}, true);
}

void System::Impl::on_reply(Link& link, Reply reply) {
  if (const auto* error = std::get_if<Error>(&reply.result);
      error != nullptr && reply.state == ReplyState::kRefused)
    if (const auto stream = ended_stream(*error)) link.end_stream(*stream, links.next_stream());
  calls.finish(std::move(reply));
}

void System::Impl::on_cancel(Link& link, std::uint64_t call_id) {
  actors.cancel(&link, call_id);
  relay.cancel(link.peer_id(), call_id);
}

void System::Impl::on_values(Link&, Values values) { calls.take_values(std::move(values)); }

void System::Impl::on_pull(Link& link, const Pull& pull) {
  if (const auto host = actors.find(pull.actor)) host->grant_values(&link, pull);
}

void System::Impl::on_credit_request(Link& link, ActorId actor) {
  if (const auto credit = actors.credit_of(&link, actor)) link.grant(*credit);
}

void System::Impl::on_ended(Link& link, EndCause how, const Error& reason) {
  failures.on_ended(link.shared_from_this(), how, reason);
}

void System::Impl::on_dropped(Link& link, const Error& reason, DisconnectCause how) {
  calls.fail_all_of(link.peer_id(), reason);
  actors.remove_sender(&link);
  const PeerDescription& peer = link.introduction();
  const bool was_connected = !peer.process.name.empty() || peer.pid != 0;
  if (!was_connected) return;
  const bool gone = how == DisconnectCause::kSaidGoodbye || links.death_of(link.peer_id());
  relay.on_peer_lost(link.peer_id(), link, gone);
  actors.on_owner_lost(link.peer_id(), how);
  if (peer_lost) peer_lost(link.peer(), reason, how);
  for (const auto& watcher : peer_watchers) watcher(link.peer(), reason);
}

bool System::Impl::is_reachable(const ActorAddress& actor) const {
  const ActorAddress now = relocations.last_known(actor);
  if (now.process.id == identity.id() && actors.has_exited(now.actor)) return false;
  return !links.death_of(now.process.id) && !relocations.ended(ActorKey::of(now));
}

void System::Impl::shut_down() {
  calls.stop_resending();
  actors.stop();
  acceptor.close();
  const Error reason(ErrorCode::kCancelled, fmt::format("{} is shutting down", identity.name()));
  std::vector<std::shared_ptr<Connection>> closing_connections;
  loop.run_and_wait([&] {
    peer_lost = nullptr;
    peer_watchers.clear();
    failures.callbacks() = {};
    refusals.set_callback(nullptr);
    timers.clear();
    calls.stop_deadlines();
    handshakes.clear();
    for (const auto& link : links.take_all(reason)) {
      link->say_goodbye({"shut down", false});
      if (auto connection = link->close_connection(reason))
        closing_connections.push_back(std::move(connection));
    }
  });
  loop.run_and_wait([] {});  // the cancelled dials end
  // Gives unsent data, such as a last large reply, a moment to leave.
  const TimePoint limit = SteadyClock().now() + std::chrono::milliseconds(500);
  for (const auto& connection : closing_connections) connection->wait_sent(limit);
  local->close(reason);
  calls.fail_all(reason);
  loop.stop();
  // What began meanwhile must be destroyed before the loop, whose timers it has.
  timers.clear();
  handshakes.clear();
  actors.join();
}

System::System(SystemOptions options) : impl_(std::make_unique<Impl>(*this, std::move(options))) {}

System::~System() { impl_->shut_down(); }

void System::provide(Provider provider) { impl_->actors.provide(std::move(provider)); }

namespace internal {

System& system_of(const ByteReader& reader) {
  if (auto* system = dynamic_cast<System*>(reader.context())) return *system;
  throw_error(ErrorCode::kInvalidArgument,
              "the bytes hold a handle of an actor, which only a call can carry: read it in the "
              "handler or from the Future of that call");
}

System& system_of(const CallState& call) { return static_cast<System&>(*call.decode_context); }

ActorAddress address_for_peers(const System& system, const ActorAddress& address) {
  return system.last_known_address(address);
}

void check_handle(const InterfaceVersion& sent, const InterfaceVersion& own,
                  const std::string& label) {
  if (sent == own) return;
  if (sent.name != own.name)
    throw_error(ErrorCode::kIncompatible,
                "a handle of {} with interface '{}' came in place of one with interface '{}'; pass "
                "an actor of the class that the method takes",
                label, sent.name, own.name);
  throw_error(ErrorCode::kIncompatible,
              "the handle of {} has interface '{}' version {} (fingerprint {:016x}), and this "
              "program knows version {} (fingerprint {:016x}); build both from the same source",
              label, sent.name, sent.version, sent.fingerprint, own.version, own.fingerprint);
}

}  // namespace internal

Address System::listen(const Address& address) {
  impl_->token.require();
  return impl_->acceptor.listen(address);
}

ProcessRef System::connect(const Address& address, Nanoseconds within, ExpectedPeer wanted) {
  impl_->token.require();
  return impl_->connector.connect(address, within, wanted);
}

ProcessRef System::self() const { return impl_->identity.process(); }

const SystemOptions& System::options() const { return impl_->options; }

std::size_t System::num_owned_actors() const {
  const auto is_owner = [&](ProcessId owner) {
    return owner == impl_->identity.id() || impl_->links.is_attached(owner);
  };
  const auto hosts = impl_->actors.all();
  const auto living = std::ranges::count_if(hosts, [&](const auto& host) {
    // Every process of a cluster hosts a directory and a spawner. Its first object adds a store.
    const ActorId actor = host->self().actor;
    return actor != actor_id_of(kDirectoryName) && actor != actor_id_of(kSpawnerName) &&
           actor != actor_id_of(kObjectStoreName) && is_owner(host->owner());
  });
  const auto ended = std::ranges::count_if(impl_->actors.owners_of_ended(), [&](ProcessId owner) {
    return impl_->links.is_attached(owner);
  });
  return static_cast<std::size_t>(living + ended);
}

ProcessRef System::owner_of(ActorId actor) const {
  const auto host = impl_->actors.find(actor);
  if (!host)
    throw_error(ErrorCode::kNotFound, "{} has no such actor any more", impl_->identity.name());
  return host->owner_process();
}

bool System::hosts(const std::string& name) const {
  return impl_->actors.find(actor_id_of(name)) != nullptr;
}

void System::on_actor_exited(std::function<void(const ActorAddress&)> callback) {
  impl_->incoming.on_exited(std::move(callback));
}

std::vector<ProcessRef> System::peers() const {
  std::vector<ProcessRef> list;
  for (const auto& link : impl_->links.attached()) list.push_back(link->peer());
  return list;
}

std::vector<WaitingCall> System::waiting_calls() const {
  return impl_->surveys.survey_itself().calls;
}

void System::set_exit_reason(const std::string& why) { impl_->surveys.set_exit_reason(why); }

void System::declare_dead(ProcessId process, const Error& error) {
  impl_->loop.post([impl = impl_.get(), process, error] {
    impl->links.mark_dead(process, error, true);
    if (const auto link = impl->links.find(process)) impl->links.drop(link, error);
    impl->calls.fail_all_of(process, error);
  });
}

void System::fail_calls(ProcessId process, const Error& error) {
  impl_->calls.cancel_all_of(process, error);
}

void System::declare_dead(const std::vector<ActorAddress>& actors, const Error& error) {
  impl_->calls.fail_all_of(keys_of(actors), error);
}

void System::fail_calls(const std::vector<ActorAddress>& actors, const Error& error) {
  impl_->calls.cancel_all_of(keys_of(actors), error);
}

void System::supervise(const ActorAddress& actor) { impl_->relocations.watch(ActorKey::of(actor)); }

void System::restart_begins(const ActorAddress& actor) {
  impl_->relocations.confirm(ActorKey::of(actor));
}

void System::restart_ends(const ActorAddress& actor, const Outcome<ActorAddress>& now) {
  const ActorKey before = ActorKey::of(actor);
  if (now.ok() && ActorKey::of(now.value()) == before)
    return impl_->relocations.finish_unmoved(actor);
  impl_->relocations.confirm(before);
  impl_->relocations.finish(before, now);
}

void System::confirm_deaths_of(ProcessId process) { impl_->relocations.confirm_all_of(process); }

ActorAddress System::last_known_address(const ActorAddress& actor) const {
  ActorAddress now = actor.owner.id == ProcessId() ? actor : impl_->relocations.last_known(actor);
  if (ProcessRef own = self(); own.id == now.process.id) now.process = std::move(own);
  if (ProcessRef own = self(); own.id == now.owner.id) now.owner = std::move(own);
  return now;
}

std::shared_ptr<const ActorAddress> System::shared_last_known_address(
    const std::shared_ptr<const ActorAddress>& actor) const {
  if (actor->owner.id == ProcessId()) return actor;
  return std::make_shared<const ActorAddress>(last_known_address(*actor));
}

void System::end_supervision(const ActorAddress& actor, const Error& why) {
  impl_->relocations.unwatch(ActorKey::of(actor), why);
}

bool System::has_ended(const ActorAddress& actor) const {
  return impl_->relocations.ended(ActorKey::of(actor));
}

void System::on_refused(std::function<void(const std::string&)> callback) {
  impl_->loop.run_and_wait([&] { impl_->refusals.set_callback(std::move(callback)); });
}

void System::on_peer_disconnected(
    std::function<void(const ProcessRef&, const Error&, DisconnectCause)> callback) {
  impl_->loop.run_and_wait([&] { impl_->peer_lost = std::move(callback); });
}

void System::on_peer_timed_out(std::function<void(const ProcessRef&, Nanoseconds)> callback) {
  impl_->loop.run_and_wait([&] { impl_->failures.callbacks().timed_out = std::move(callback); });
}

void System::on_peer_suspected(
    std::function<void(const ProcessRef&, std::optional<Nanoseconds>)> callback) {
  impl_->loop.run_and_wait([&] { impl_->failures.callbacks().suspected = std::move(callback); });
}

void System::on_peer_eof(std::function<void(const ProcessRef&)> callback) {
  impl_->loop.run_and_wait([&] { impl_->failures.callbacks().eof = std::move(callback); });
}

void System::watch_lost_peers(std::function<void(const ProcessRef&, const Error&)> callback) {
  impl_->loop.post([impl = impl_.get(), callback = std::move(callback)]() mutable {
    impl->peer_watchers.push_back(std::move(callback));
  });
}

std::shared_ptr<void> System::attach(std::type_index type,
                                     const std::function<std::shared_ptr<void>()>& make) {
  const std::lock_guard lock(impl_->attachments_mutex);
  std::shared_ptr<void>& attached = impl_->attachments[type];
  if (!attached) attached = make();
  return attached;
}

Secret System::token() const { return impl_->token.current(); }

System::TokenReplacement System::replace_token(const Secret& next, Nanoseconds former_for,
                                               const std::vector<ProcessId>& members) {
  impl_->token.require();
  return impl_->token.replace(next, former_for, members);
}

void System::accept_former_token(const Secret& former, Nanoseconds within,
                                 const std::vector<ProcessId>& members) {
  impl_->token.accept_former(former, within, members);
}

void System::run_every(Nanoseconds interval, std::function<void()> callback) {
  impl_->timers.run_every(interval, std::move(callback));
}

void System::run_after(Nanoseconds delay, std::function<void()> callback) {
  impl_->timers.run_after(delay, std::move(callback));
}

std::shared_ptr<CallState> System::call(const std::shared_ptr<const ActorAddress>& target,
                                        const Method& method, Nanoseconds within,
                                        std::vector<std::byte> arguments) {
  return impl_->calls.call(target, method.name,
                           Call{0, target->actor, method.fingerprint, method.index, method.urgent,
                                0, std::move(arguments)},
                           within == kDefaultDeadline ? method.deadline : within,
                           method.idempotent);
}

std::vector<std::shared_ptr<CallState>> System::call_each(
    const std::vector<std::shared_ptr<const ActorAddress>>& targets, const Method& method,
    Nanoseconds within, std::vector<std::vector<std::byte>> arguments) {
  WEFT_CHECK(targets.size() == arguments.size(), "{} arguments for {} actors", arguments.size(),
             targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i)
    OutgoingCalls::check_size(arguments[i].size(), *targets[i], method.name);
  std::vector<std::shared_ptr<CallState>> calls;
  calls.reserve(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i)
    calls.push_back(call(targets[i], method, within, std::move(arguments[i])));
  return calls;
}

std::shared_ptr<CompletionQueue> System::stream(
    const std::vector<std::shared_ptr<const ActorAddress>>& targets, const Method& method,
    Nanoseconds within, const std::vector<std::byte>& arguments) {
  if (within == kDefaultDeadline) within = method.deadline;
  return ValueQueue::make(targets.size(), [&](std::size_t index, const ValueSink& sink) {
    const auto& target = targets[index];
    return impl_->calls.call(
        target, method.name,
        Call{0, target->actor, method.fingerprint, method.index, method.urgent, 0, arguments},
        within, method.idempotent, sink);
  });
}

std::vector<std::shared_ptr<CallState>> System::call_all(
    const std::vector<std::shared_ptr<const ActorAddress>>& targets, const Method& method,
    Nanoseconds within, std::vector<std::byte> arguments, std::optional<ReduceOperation> reduce) {
  return impl_->trees.call(targets, method, within == kDefaultDeadline ? method.deadline : within,
                           std::move(arguments), {true, reduce});
}

void System::tell_all(const std::vector<std::shared_ptr<const ActorAddress>>& targets,
                      const Method& method, std::vector<std::byte> arguments) {
  if (targets.size() < kMinTreeRanks) {
    for (const auto& target : targets) tell(target, method, arguments);
    return;
  }
  const auto calls = impl_->trees.call(targets, method, method.deadline, std::move(arguments),
                                       {false, std::nullopt});
  for (const auto& state : calls) OutgoingCalls::log_failure(options().log, state);
}

std::shared_ptr<CallState> System::find_actors(const std::string& name, Nanoseconds within) {
  const ActorId directory = actor_id_of(kDirectoryName);
  if (!impl_->actors.find(directory))
    throw_error(ErrorCode::kFailedPrecondition,
                "{} cannot find '{}': it belongs to no cluster; find actors in drivers and device "
                "processes",
                impl_->identity.name(), name);
  const auto target =
      std::make_shared<const ActorAddress>(ActorAddress{self(), directory, kDirectoryName});
  if (within == kDefaultDeadline || within > Nanoseconds::zero())
    return call(target, internal::method_of<Directory, &Directory::find>(), within,
                encode(std::tuple(name)));
  return call(target, internal::method_of<Directory, &Directory::find_now>(), kDefaultDeadline,
              encode(std::tuple(name)));
}

bool System::tell(const std::shared_ptr<const ActorAddress>& target, const Method& method,
                  std::vector<std::byte> arguments) {
  return impl_->calls.tell(target,
                           Call{0, target->actor, method.fingerprint, method.index, method.urgent,
                                0, std::move(arguments)},
                           method.deadline);
}

std::size_t System::less_loaded(
    const std::vector<std::shared_ptr<const ActorAddress>>& actors) const {
  if (actors.size() < 2) return 0;
  std::array<std::uint64_t, 2> random{};
  fill_with_random(std::as_writable_bytes(std::span(random)));
  const std::size_t first = random[0] % actors.size();
  const std::size_t second = (first + 1 + random[1] % (actors.size() - 1)) % actors.size();
  const bool first_lives = impl_->is_reachable(*actors[first]);
  const bool second_lives = impl_->is_reachable(*actors[second]);
  if (!first_lives && !second_lives) {
    for (std::size_t i = 1; i < actors.size(); ++i)
      if (const std::size_t other = (first + i) % actors.size();
          impl_->is_reachable(*actors[other]))
        return other;
    return first;
  }
  if (first_lives != second_lives) return first_lives ? first : second;
  const auto& calls = impl_->calls;
  return calls.unanswered(*actors[second]) < calls.unanswered(*actors[first]) ? second : first;
}

std::shared_ptr<CallState> System::stop_actor(const std::shared_ptr<const ActorAddress>& target,
                                              Nanoseconds within) {
  return call_system(shared_last_known_address(target),
                     static_cast<std::uint32_t>(SystemMethod::kStop), "stop", within);
}

std::shared_ptr<CallState> System::stop_actors_of(const ProcessRef& process,
                                                  const std::string& mesh, std::uint64_t epoch,
                                                  Nanoseconds within) {
  const StopRequest request{mesh, {}, false, epoch};
  return impl_->calls.call(system_actor_of(process, mesh), "stop",
                           system_call(SystemMethod::kStopActors, encode(request)), within);
}

std::shared_ptr<CallState> System::ask_report(const std::shared_ptr<const ActorAddress>& target,
                                              Nanoseconds within) {
  return call_system(shared_last_known_address(target),
                     static_cast<std::uint32_t>(SystemMethod::kReport), "report", within);
}

std::shared_ptr<CallState> System::ask_decider(const ActorAddress& parent, std::uint64_t decider,
                                               std::vector<std::byte> incident,
                                               Nanoseconds within) {
  const DecisionRequest request{parent.actor, decider, std::move(incident)};
  return impl_->calls.call(system_actor_of(parent.process, parent.label), "decide",
                           system_call(SystemMethod::kDecide, encode(request)), within);
}

void System::forget_decider(ActorId parent, std::uint64_t decider) {
  if (const auto host = impl_->actors.find(parent)) host->forget_decider(decider);
}

Future<std::vector<ProcessSurvey>> System::survey(const ProcessRef& first,
                                                  const SurveyRequest& request,
                                                  Nanoseconds within) {
  return Future<std::vector<ProcessSurvey>>(
      impl_->calls.call(system_actor_of(first, "survey"), kSurveyMethod, survey_call(request),
                        within),
      [](Pending& pending) { return surveys_of(static_cast<CallState&>(pending)); });
}

std::shared_ptr<CallState> System::call_system(const std::shared_ptr<const ActorAddress>& target,
                                               std::uint32_t method, const char* name,
                                               Nanoseconds within) {
  return impl_->calls.call(system_actor_of(target->process, target->label), name,
                           system_call(static_cast<SystemMethod>(method), encode(target->actor)),
                           within);
}

}  // namespace weft::actors
