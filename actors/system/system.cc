#include "actors/system/system.h"

#include <fmt/format.h>
#include <unistd.h>

#include <future>
#include <random>

#include "actors/system/internal/runtime.h"

namespace weft::actors {

namespace {

constexpr auto kDialAgainAfter = std::chrono::milliseconds(50);

ProcessId new_process_id() {
  std::random_device random;
  std::uint64_t id = 0;
  while (id == 0) id = std::uint64_t{random()} << 32 | random();
  return ProcessId(id);
}

}  // namespace

System::Impl::Impl(System& system, SystemOptions system_options)
    : owner(system),
      options(std::move(system_options)),
      local(std::make_shared<LocalRoute>(*this)),
      loop("weft-io") {
  self.process = {new_process_id(), options.name, Address{}};
  self.pid = ::getpid();
  self.binary_name = options.binary_name;
  self.binary_hash = options.binary_hash;
  local->open();
  loop.post([] { set_on_actor_thread(); });  // nor must the I/O thread wait when it calls
  deadline_timer = std::make_unique<Timer>(loop);
  if (options.beat_interval > Nanoseconds::zero())
    repeat(options.beat_interval, std::make_shared<std::function<void()>>([this] { beat(); }));
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
                "{} has no token, and so cannot prove to others that it may talk to them; {}",
                options.name, kTokenHint);
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
    std::promise<void> ended;
    host->when_ended([&] { ended.set_value(); });
    WEFT_CHECK(
        ended.get_future().wait_for(ActorHost::kStopGrace + std::chrono::seconds(5)) ==
            std::future_status::ready,
        "a handler of {} did not end within {} s of being stopped; it must look at its stop token",
        host->self().label, std::chrono::seconds(ActorHost::kStopGrace).count());
  }
  listener.reset();
  const Error reason(ErrorCode::kCancelled, fmt::format("{} is shutting down", self.process.name));
  std::vector<std::shared_ptr<Link>> open_links;
  std::vector<std::shared_ptr<Connection>> closing_connections;
  loop.run_and_wait([&] {
    peer_lost = nullptr;
    peer_suspect = nullptr;
    peer_silent = nullptr;
    timers.clear();
    deadline_timer.reset();
    for (auto& [id, cancel] : dials) cancel();
    dials.clear();
    unproven.clear();
    own_greetings.clear();
    {
      const std::lock_guard lock(routes_mutex);
      for (auto& [id, link] : links) open_links.push_back(link);
      links.clear();
    }
    for (const auto& link : open_links) {
      link->say_goodbye("shut down");
      if (auto connection = link->shut(reason))
        closing_connections.push_back(std::move(connection));
    }
  });
  // What the sockets have not taken yet, such as a last large reply, has a moment to leave.
  const TimePoint limit = SteadyClock().now() + std::chrono::milliseconds(500);
  for (const auto& connection : closing_connections) connection->wait_sent(limit);
  local->close(reason);
  for (const auto& state : pending.take_all()) state->fail(with_outcome(reason, *state));
  loop.stop();
  timers.clear();  // those that were set meanwhile: they must go before the loop
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
      impl_->loop, address, [impl = impl_.get()](std::shared_ptr<Connection> connection) {
        impl->greet(std::move(connection), Greeting::Side::kAcceptor,
                    [impl](Greeting& greeting, Greeting::Answer answer) {
                      if (auto* other = std::get_if<Introduction>(&answer))
                        return impl->on_greeted(greeting, std::move(*other));
                      const auto* reject = std::get_if<Reject>(&answer);
                      impl->log_refusal(greeting.connection()->peer_address(),
                                        reject != nullptr ? to_error(*reject).message()
                                                          : std::get<Error>(answer).message());
                    });
      });
  Address advertised = listener->address();
  if (!impl_->options.advertise_host.empty()) advertised.host = impl_->options.advertise_host;
  {
    const std::lock_guard lock(impl_->self_mutex);
    impl_->self.process.address = advertised;
  }
  impl_->listener = std::move(listener);
  return advertised;
}

ProcessRef System::connect(const Address& address, Nanoseconds within) {
  impl_->require_token();
  const std::lock_guard one_at_a_time(impl_->connect_mutex);
  {
    const std::lock_guard lock(impl_->routes_mutex);
    for (const auto& [id, link] : impl_->links)
      if (link->attached() && link->peer().address == address) return link->peer();
  }
  struct Result {
    std::promise<Outcome<ProcessRef>> promise;
    bool set = false;
    ProcessId dials_us;  // it is connecting to this process, and its connection stays
    std::function<void()> dial_again;
    void give(Outcome<ProcessRef> outcome) {
      if (!std::exchange(set, true)) promise.set_value(std::move(outcome));
    }
  };
  const TimePoint deadline = SteadyClock().now() + within;
  const auto result = std::make_shared<Result>();
  Impl* impl = impl_.get();
  const auto on_connected = [impl, result, address,
                             deadline](std::shared_ptr<Connection> connection) {
    impl->greet(
        std::move(connection), Greeting::Side::kDialler,
        [impl, result, address, deadline](Greeting& greeting, Greeting::Answer answer) {
          if (const auto* error = std::get_if<Error>(&answer)) {
            // It had no room for one more that has proven nothing, or is just ending or starting.
            if (error->code() == ErrorCode::kUnavailable &&
                SteadyClock().now() + kDialAgainAfter < deadline)
              return impl->schedule(kDialAgainAfter, [result] { result->dial_again(); });
            return result->give(
                Error(error->code(),
                      fmt::format("cannot talk to {}: {}", to_string(address), error->message())));
          }
          if (const auto* reject = std::get_if<Reject>(&answer)) {
            if (reject->duplicate) result->dials_us = reject->process;
            return result->give(to_error(*reject));
          }
          auto other = std::get<Introduction>(std::move(answer));
          if (const auto reject = find_incompatibility(impl->introduce(), other))
            return result->give(to_error(*reject));
          // Others reach it as this process did, whatever address it listens on.
          if (other.process.address.port != 0 &&
              (other.process.address.host == "0.0.0.0" || other.process.address.host == "::"))
            other.process.address.host = address.host;
          std::shared_ptr<Link> link;
          {
            const std::lock_guard lock(impl->routes_mutex);
            if (const auto found = impl->links.find(other.process.id); found != impl->links.end())
              link = found->second;
          }
          if (link && link->ended())
            impl->lose(link, Error(ErrorCode::kPeerDied,
                                   fmt::format("the connection to {} was lost and made anew",
                                               describe(other))));
          {
            const std::lock_guard lock(impl->routes_mutex);
            link = impl->links
                       .try_emplace(other.process.id, std::make_shared<Link>(other.process, *impl))
                       .first->second;
          }
          const ProcessRef peer = link->peer();
          if (!link->attached()) impl->adopt(link, greeting, std::move(other), true);
          result->give(peer);
        });
  };
  result->dial_again = [impl, result, address, deadline, on_connected] {
    dial(impl->loop, address, deadline, Retry::kUntilDeadline,
         {on_connected, [result](const Error& error) { result->give(error); }});
  };
  result->dial_again();
  Outcome<ProcessRef> outcome = result->promise.get_future().get();
  result->dial_again = nullptr;  // it holds itself
  if (outcome.ok() || result->dials_us == ProcessId()) return std::move(outcome).value();
  // It dials this process at the same time, and its connection is the one that stays.
  std::unique_lock lock(impl->routes_mutex);
  std::shared_ptr<Link> link;
  impl->link_attached.wait_until(lock, deadline, [&] {
    const auto found = impl->links.find(result->dials_us);
    link = found != impl->links.end() && found->second->attached() ? found->second : nullptr;
    return link != nullptr;
  });
  return link ? link->peer() : std::move(outcome).value();
}

ProcessRef System::self() const { return impl_->introduce().process; }

const SystemOptions& System::options() const { return impl_->options; }

std::vector<ProcessRef> System::peers() const {
  const std::lock_guard lock(impl_->routes_mutex);
  std::vector<ProcessRef> list;
  for (const auto& [id, link] : impl_->links)
    if (link->attached()) list.push_back(link->peer());
  return list;
}

void System::fail_peer(ProcessId process, const Error& error) {
  impl_->loop.post([impl = impl_.get(), process, error] {
    std::shared_ptr<Link> link;
    {
      const std::lock_guard lock(impl->routes_mutex);
      impl->mark_dead(process, error, true);
      if (const auto found = impl->links.find(process); found != impl->links.end())
        link = found->second;
    }
    if (link) impl->lose(link, error);
    impl->forget(process, error);
  });
}

void System::on_peer_lost(std::function<void(const ProcessRef&, const Error&)> callback) {
  impl_->loop.run_and_wait([&] { impl_->peer_lost = std::move(callback); });
}

void System::on_peer_silent(std::function<void(const ProcessRef&, Nanoseconds)> callback) {
  impl_->loop.run_and_wait([&] { impl_->peer_silent = std::move(callback); });
}

void System::on_peer_suspect(std::function<void(const ProcessRef&)> callback) {
  impl_->loop.run_and_wait([&] { impl_->peer_suspect = std::move(callback); });
}

void System::every(Nanoseconds interval, std::function<void()> callback) {
  impl_->repeat(interval, std::make_shared<std::function<void()>>(std::move(callback)));
}

void System::after(Nanoseconds delay, std::function<void()> callback) {
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
