#include "actors/system/context.h"

#include "actors/system/actor_host.h"
#include "actors/system/internal/loop_timers.h"
#include "actors/system/system.h"

namespace weft::actors {

ActorAddress Context::self() const {
  ActorAddress address = self_;
  address.process = system_.self();
  return address;
}

DecodeContext* Context::decode_context() const { return &system_; }

const RestartInfo& Context::restart_info() const { return host_.options().restart; }

ProcessRef Context::caller() const {
  const CallFrame* frame = host_.current();
  return frame ? frame->envelope().route->peer() : system_.self();
}

TimePoint Context::deadline() const {
  const CallFrame* frame = host_.current();
  return frame ? frame->envelope().deadline : TimePoint::max();
}

std::stop_token Context::stop_token() const { return host_.stop_token(); }

TaskPoster Context::poster() const { return TaskPoster(host_.mailbox()); }

void Context::set_report(std::function<std::vector<std::byte>()> report) const {
  host_.on_report(std::move(report));
}

const Log& Context::log() const { return host_.options().log; }

Wakeup Context::make_wakeup() const {
  return Wakeup([&timers = host_.options().timers](Nanoseconds delay, std::function<void()> then) {
    timers.run_after(delay, std::move(then));
  });
}

std::uint64_t Context::add_decider(
    std::function<std::vector<std::byte>(std::span<const std::byte>)> decide) const {
  return host_.add_decider(std::move(decide));
}

std::optional<Context::OwnMethod> Context::urgent_method(const std::string& name) const {
  const Provider& provider = host_.options().provider;
  for (std::uint32_t index = 0; index < provider.methods.size(); ++index)
    if (provider.methods[index].urgent && provider.methods[index].name == name)
      return OwnMethod{index, provider.interface.fingerprint};
  return std::nullopt;
}

void Context::exit(const std::string& reason) const { host_.exit(reason); }

ActorTimer Context::after(Nanoseconds time, std::function<void()> task) const {
  return {host_.options().timers, host_.mailbox(), time, Nanoseconds::zero(), std::move(task)};
}

ActorTimer Context::every(Nanoseconds interval, std::function<void()> task) const {
  if (interval <= Nanoseconds::zero())
    throw_error(ErrorCode::kInvalidArgument, "{}: the interval of a timer must be above zero",
                self_.label);
  return {host_.options().timers, host_.mailbox(), interval, interval, std::move(task)};
}

void Context::on_activity(std::function<ActorActivity()> activity) const {
  host_.on_activity(std::move(activity));
}

}  // namespace weft::actors
