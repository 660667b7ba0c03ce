#include "actors/system/system.h"

#include <fmt/format.h>

#include <array>
#include <span>

#include "actors/system/internal/runtime.h"
#include "core/base/aead.h"
#include "core/base/platform.h"
#include "core/base/thread.h"

namespace weft::actors {

namespace {

constexpr auto kDialAgainAfter = std::chrono::milliseconds(50);

ProcessId new_process_id() {
  std::array<std::uint64_t, 1> id{};
  while (id[0] == 0) fill_with_random(std::as_writable_bytes(std::span(id)));
  return ProcessId(id[0]);
}

/// State of one System::connect(). The calling thread constructs this and waits; the rest runs on
/// the loop's thread. Shared with pending callbacks.
class ConnectAttempt final : public std::enable_shared_from_this<ConnectAttempt> {
 public:
  ConnectAttempt(System::Impl& system, Address address, TimePoint deadline, ExpectedPeer wanted)
      : system_(system), address_(std::move(address)), deadline_(deadline), wanted_(wanted) {}

  void start() {
    const DialTls protection = system_.protection_of(address_);
    dial(system_.loop, address_, deadline_, Retry::kUntilDeadline,
         {[self = shared_from_this()](std::shared_ptr<Connection> connection) {
            self->start_handshake(std::move(connection));
          },
          [self = shared_from_this()](const Error& error) { self->finish(error); }},
         protection);
  }

  Outcome<ProcessRef> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return outcome_.has_value(); });
    return std::move(*outcome_);
  }
  /// Returns, after a failure, the process that connects to this one at the same time and whose
  /// connection stays; id 0: none.
  ProcessId concurrent_dialler() const { return dials_us_; }

 private:
  void start_handshake(std::shared_ptr<Connection> connection) {
    system_.start_handshake(
        std::move(connection), Handshake::Side::kDialler,
        [self = shared_from_this()](Handshake& handshake, Handshake::Answer answer) {
          self->on_answer(handshake, std::move(answer));
        },
        wanted_);
  }

  void on_answer(Handshake& handshake, Handshake::Answer answer) {
    if (const auto* error = std::get_if<Error>(&answer)) return on_failed(*error);
    if (const auto* reject = std::get_if<Reject>(&answer)) {
      if (reject->authenticated && reject->duplicate) {
        dials_us_ = reject->process;
        note_head(reject->process);
      }
      return finish(to_error(*reject));
    }
    on_peer(handshake, std::get<PeerDescription>(std::move(answer)));
  }

  void on_failed(const Error& error) {
    // The peer has too many unproven connections, or is ending or starting.
    if (error.code() == ErrorCode::kUnavailable &&
        SteadyClock().now() + kDialAgainAfter < deadline_)
      return system_.schedule(kDialAgainAfter, [self = shared_from_this()] { self->start(); });
    finish(Error(error.code(),
                 fmt::format("cannot talk to {}: {}", to_string(address_), error.message())));
  }

  void on_peer(Handshake& handshake, PeerDescription other) {
    if (const auto reject = find_incompatibility(system_.introduce(), other))
      return finish(to_error(*reject));
    // If the peer listens on every address, others reach it as this process did.
    Address& listens_at = other.process.address;
    if (listens_at.port != 0 && (listens_at.host == "0.0.0.0" || listens_at.host == "::"))
      listens_at.host = address_.host;
    note_head(other.process.id);
    const std::shared_ptr<Link> link = link_to(other);
    const ProcessRef peer = link->peer();
    if (!link->attached()) system_.adopt(link, handshake, std::move(other), true);
    finish(peer);
  }

  /// Records the process that accepted this connection. Only a head accepts one for the head.
  void note_head(ProcessId process) const {
    if (!wanted_.head) return;
    const std::lock_guard lock(system_.routes_mutex);
    system_.head = process;
  }

  /// Returns the link to a process; makes a new one if there is none or its connection was lost.
  std::shared_ptr<Link> link_to(const PeerDescription& other) {
    std::shared_ptr<Link> link;
    {
      const std::lock_guard lock(system_.routes_mutex);
      if (const auto found = system_.links.find(other.process.id); found != system_.links.end())
        link = found->second;
    }
    if (link && link->ended())
      system_.drop_link(
          link,
          Error(ErrorCode::kPeerDied,
                fmt::format("the connection to {} was lost and replaced", describe(other))),
          DisconnectCause::kDisconnected);
    const std::lock_guard lock(system_.routes_mutex);
    return system_.links
        .try_emplace(other.process.id,
                     std::make_shared<Link>(other.process, system_, system_.options.beat_interval))
        .first->second;
  }

  /// Sets the outcome, if there is none yet.
  void finish(Outcome<ProcessRef> outcome) {
    const std::lock_guard lock(mutex_);
    if (!outcome_) outcome_ = std::move(outcome);
    changed_.notify_all();
  }

  System::Impl& system_;
  const Address address_;
  const TimePoint deadline_;
  const ExpectedPeer wanted_;
  Mutex mutex_;
  Condition changed_;
  std::optional<Outcome<ProcessRef>> outcome_;  // guarded by mutex_
  ProcessId dials_us_;
};

}  // namespace

System::Impl::Impl(System& system, SystemOptions system_options)
    : owner(system),
      options(std::move(system_options)),
      current_token(options.token),
      local(std::make_shared<LocalRoute>(*this)),
      tokens(options.token),
      tls(options.tls, options.identity),
      loop("weft-io", options.io_share) {
  self.process = {new_process_id(), options.name, Address{}};
  self.pid = weft::process_id();
  self.binary_name = options.binary_name;
  self.binary_hash = options.binary_hash;
  self.has_aes = Aead::has_aes();
  local->open();
  loop.post([] { set_on_actor_thread(); });  // the I/O thread must not block in calls either
  deadline_timer = std::make_unique<Timer>(loop);
  if (options.beat_interval > Nanoseconds::zero())
    repeat(options.beat_interval,
           std::make_shared<std::function<void()>>([this] { send_heartbeats(); }));
}

System::Impl::~Impl() = default;

void System::Impl::schedule(Nanoseconds delay, std::function<void()> callback) {
  loop.post([this, delay, callback = std::move(callback)]() mutable {
    auto timer = std::make_shared<Timer>(loop);
    timers.insert(timer);
    timer->start_after(delay, [this, raw = timer.get(), callback = std::move(callback)] {
      callback();
      for (auto each = timers.begin(); each != timers.end(); ++each)
        if (each->get() == raw) {
          timers.erase(each);
          break;
        }
    });
  });
}

void System::Impl::repeat(Nanoseconds interval,
                          const std::shared_ptr<std::function<void()>>& callback) {
  schedule(interval, [this, interval, callback] {
    (*callback)();
    repeat(interval, callback);
  });
}

void System::Impl::require_token() const {
  if (options.token.empty())
    throw_error(ErrorCode::kFailedPrecondition,
                "{} has no cluster token and cannot authenticate; {}", options.name, kTokenHint);
}

void System::Impl::shut_down() {
  std::vector<std::shared_ptr<ActorHost>> all;
  {
    const std::lock_guard lock(hosts_mutex);
    closing = true;
    for (const auto& [id, host] : hosts) all.push_back(host);
  }
  for (const auto& host : all) host->stop();
  for (const auto& host : all) {
    WEFT_CHECK(host->wait_ended(ActorHost::kStopGrace + std::chrono::seconds(5)),
               "a handler of {} did not end within {} s after a stop request; it must check "
               "context.stop_token()",
               host->self().label, std::chrono::seconds(ActorHost::kStopGrace).count());
  }
  listener.reset();
  const Error reason(ErrorCode::kCancelled, fmt::format("{} is shutting down", self.process.name));
  std::vector<std::shared_ptr<Link>> open_links;
  std::vector<std::shared_ptr<Connection>> closing_connections;
  loop.run_and_wait([&] {
    peer_lost = nullptr;
    peer_suspect = nullptr;
    peer_timed_out = nullptr;
    peer_suspected = nullptr;
    refused = nullptr;
    timers.clear();
    deadline_timer.reset();
    for (auto& [id, cancel] : dials) cancel();
    dials.clear();
    incoming_handshakes.clear();
    outgoing_handshakes.clear();
    {
      const std::lock_guard lock(routes_mutex);
      for (auto& [id, link] : links) open_links.push_back(link);
      links.clear();
    }
    for (const auto& link : open_links) {
      link->say_goodbye({"shut down", false});
      if (auto connection = link->close_connection(reason))
        closing_connections.push_back(std::move(connection));
    }
  });
  // Gives unsent data, such as a last large reply, a moment to leave.
  const TimePoint limit = SteadyClock().now() + std::chrono::milliseconds(500);
  for (const auto& connection : closing_connections) connection->wait_sent(limit);
  local->close(reason);
  for (const auto& state : pending.take_all()) state->fail(with_call_outcome(reason, *state));
  loop.stop();
  timers.clear();  // timers that were set meanwhile must be destroyed before the loop
  const std::lock_guard lock(hosts_mutex);
  for (const auto& [id, host] : hosts) host->join();
  hosts.clear();
}

System::System(SystemOptions options) : impl_(std::make_unique<Impl>(*this, std::move(options))) {}

System::~System() { impl_->shut_down(); }

void System::provide(Provider provider) {
  use(provider.interface);
  impl_->providers.push_back(std::move(provider));
}

void System::use(InterfaceVersion interface) {
  const std::lock_guard lock(impl_->self_mutex);
  for (const auto& known : impl_->self.interfaces)
    if (known == interface) return;
  impl_->self.interfaces.push_back(std::move(interface));
}

Address System::listen(const Address& address) {
  impl_->require_token();
  auto listener = std::make_unique<Listener>(
      impl_->loop, address,
      [impl = impl_.get()](std::shared_ptr<Connection> connection) {
        impl->start_handshake(std::move(connection), Handshake::Side::kAcceptor,
                              [impl](Handshake& handshake, Handshake::Answer answer) {
                                if (auto* other = std::get_if<PeerDescription>(&answer))
                                  return impl->on_handshake(handshake, std::move(*other));
                                const auto* reject = std::get_if<Reject>(&answer);
                                impl->log_refusal(handshake.connection()->peer_address(),
                                                  reject != nullptr
                                                      ? to_error(*reject).message()
                                                      : std::get<Error>(answer).message());
                              });
      },
      &impl_->tls);
  Address advertised = listener->address();
  if (!impl_->options.advertise_host.empty()) advertised.host = impl_->options.advertise_host;
  {
    const std::lock_guard lock(impl_->self_mutex);
    impl_->self.process.address = advertised;
  }
  impl_->listener = std::move(listener);
  return advertised;
}

ProcessRef System::connect(const Address& address, Nanoseconds within, ExpectedPeer wanted) {
  impl_->require_token();
  const std::lock_guard one_at_a_time(impl_->connect_mutex);
  {
    const std::lock_guard lock(impl_->routes_mutex);
    for (const auto& [id, link] : impl_->links)
      if (link->attached() && link->peer().address == address && impl_->is_wanted(id, wanted))
        return link->peer();
  }
  const TimePoint deadline = SteadyClock().now() + within;
  const auto attempt = std::make_shared<ConnectAttempt>(*impl_, address, deadline, wanted);
  attempt->start();
  Outcome<ProcessRef> outcome = attempt->wait();
  if (outcome.ok() || attempt->concurrent_dialler() == ProcessId())
    return std::move(outcome).value();
  std::unique_lock lock(impl_->routes_mutex);
  std::shared_ptr<Link> link;
  impl_->link_attached.wait_until(lock, deadline, [&] {
    const auto found = impl_->links.find(attempt->concurrent_dialler());
    link = found != impl_->links.end() && found->second->attached() ? found->second : nullptr;
    return link != nullptr;
  });
  return link ? link->peer() : std::move(outcome).value();
}

ProcessRef System::self() const { return impl_->introduce().process; }

const SystemOptions& System::options() const { return impl_->options; }

std::size_t System::num_owned_actors() const {
  std::vector<ProcessId> owners;
  {
    const std::lock_guard lock(impl_->hosts_mutex);
    for (const auto& [id, host] : impl_->hosts) owners.push_back(host->owner());
  }
  const ProcessId own = self().id;
  const std::lock_guard lock(impl_->routes_mutex);
  return std::ranges::count_if(owners, [&](ProcessId owner) {
    const auto link = impl_->links.find(owner);
    return owner == own || (link != impl_->links.end() && link->second->attached());
  });
}

std::vector<ProcessRef> System::peers() const {
  const std::lock_guard lock(impl_->routes_mutex);
  std::vector<ProcessRef> list;
  for (const auto& [id, link] : impl_->links)
    if (link->attached()) list.push_back(link->peer());
  return list;
}

void System::set_exit_reason(const std::string& why) {
  const std::lock_guard lock(impl_->hosts_mutex);
  if (!impl_->ending) impl_->ending.emplace(why, SteadyClock().now());
}

void System::declare_dead(ProcessId process, const Error& error) {
  impl_->loop.post([impl = impl_.get(), process, error] {
    std::shared_ptr<Link> link;
    {
      const std::lock_guard lock(impl->routes_mutex);
      impl->mark_dead(process, error, true);
      if (const auto found = impl->links.find(process); found != impl->links.end())
        link = found->second;
    }
    if (link) impl->drop_link(link, error);
    impl->fail_pending_calls(process, error);
  });
}

void System::fail_calls(ProcessId process, const Error& error) {
  for (const auto& state : impl_->pending.take_all_of(process))
    if (state->fail(with_call_outcome(error, *state))) impl_->withdraw(*state);
}

void System::on_refused(std::function<void(const std::string&)> callback) {
  impl_->loop.run_and_wait([&] { impl_->refused = std::move(callback); });
}

void System::on_peer_disconnected(
    std::function<void(const ProcessRef&, const Error&, DisconnectCause)> callback) {
  impl_->loop.run_and_wait([&] { impl_->peer_lost = std::move(callback); });
}

void System::on_peer_timed_out(std::function<void(const ProcessRef&, Nanoseconds)> callback) {
  impl_->loop.run_and_wait([&] { impl_->peer_timed_out = std::move(callback); });
}

void System::on_peer_suspected(
    std::function<void(const ProcessRef&, std::optional<Nanoseconds>)> callback) {
  impl_->loop.run_and_wait([&] { impl_->peer_suspected = std::move(callback); });
}

void System::on_peer_eof(std::function<void(const ProcessRef&)> callback) {
  impl_->loop.run_and_wait([&] { impl_->peer_suspect = std::move(callback); });
}

void System::run_every(Nanoseconds interval, std::function<void()> callback) {
  impl_->repeat(interval, std::make_shared<std::function<void()>>(std::move(callback)));
}

void System::run_after(Nanoseconds delay, std::function<void()> callback) {
  impl_->schedule(delay, std::move(callback));
}

std::shared_ptr<CallState> System::call(const std::shared_ptr<const ActorAddress>& target,
                                        const Method& method, Nanoseconds within,
                                        std::vector<std::byte> arguments) {
  return impl_->call(target, method.name,
                     Call{0, target->actor, method.fingerprint, method.index, method.urgent, 0,
                          std::move(arguments)},
                     within);
}

bool System::tell(const std::shared_ptr<const ActorAddress>& target, const Method& method,
                  std::vector<std::byte> arguments) {
  return impl_->tell(target, Call{0, target->actor, method.fingerprint, method.index, method.urgent,
                                  0, std::move(arguments)});
}

std::shared_ptr<CallState> System::stop_actor(const std::shared_ptr<const ActorAddress>& target,
                                              Nanoseconds within) {
  return call_system(target, static_cast<std::uint32_t>(SystemMethod::kStop), "stop", within);
}

std::shared_ptr<CallState> System::ask_report(const std::shared_ptr<const ActorAddress>& target,
                                              Nanoseconds within) {
  return call_system(target, static_cast<std::uint32_t>(SystemMethod::kReport), "report", within);
}

std::shared_ptr<CallState> System::call_system(const std::shared_ptr<const ActorAddress>& target,
                                               std::uint32_t method, const char* name,
                                               Nanoseconds within) {
  Call call;
  call.urgent = true;
  call.method = method;
  call.arguments = encode(target->actor);
  return impl_->call(std::make_shared<const ActorAddress>(
                         ActorAddress{target->process, ActorId(0), target->label}),
                     name, std::move(call), within);
}

}  // namespace weft::actors
