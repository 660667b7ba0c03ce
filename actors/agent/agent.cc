#include "actors/agent/agent.h"

#include <chrono>
#include <utility>

#include "actors/system/system.h"
#include "core/base/error.h"
#include "core/base/name.h"
#include "core/base/thread.h"

namespace weft::actors {
namespace {

constexpr auto kProbeWithin = std::chrono::seconds(2);
constexpr auto kTrialWithin = std::chrono::seconds(1);
constexpr auto kTrialIsOpenFor = std::chrono::seconds(10);
constexpr auto kLookAtTrialsEvery = std::chrono::milliseconds(5);
constexpr auto kInterruptedRunsEndWithin = std::chrono::seconds(3);
constexpr auto kLookAtRunsEvery = std::chrono::milliseconds(10);
constexpr std::size_t kKeptOwnerEnds = 100;

}  // namespace

Agent::Agent(Context& context, AgentConfig config, AgentEvents events, ProcessLauncher& launcher)
    : context_(context),
      config_(std::move(config)),
      events_(std::move(events)),
      head_(config_.name),
      runs_(context, config_, events_, head_, launcher, [this] { report_num_processes(); }),
      slots_(context, config_, events_, head_, launcher, [this] { report_num_processes(); }) {
  set_thread_priority(ThreadPriority::kControl);
}

void Agent::check_called_locally() const {
  if (context_.caller().id != context_.system().self().id)
    throw_error(ErrorCode::kInvalidArgument, "only the agent's own process may call this");
}

void Agent::check_not_leaving() const {
  if (leaving_)
    throw_error(ErrorCode::kUnavailable,
                "host {} is leaving the cluster and starts no new processes; use another host",
                config_.name);
}

AgentReport Agent::prepare_join(ProcessRef head) {
  check_called_locally();
  head_.prepare(std::move(head));
  AgentReport report;
  slots_.add_to(report);
  report.owners_ended.assign(owner_ends_.begin(), owner_ends_.end());
  return report;
}

void Agent::complete_join(ProcessRef head, std::uint64_t term, std::int64_t grace_ns) {
  check_called_locally();
  head_.complete(std::move(head), term, grace_ns);
  slots_.head_changed();
  // Reports recent ends again: the head may have been away at the first report.
  runs_.repeat_ends();
  for (const OwnerExit& end : owner_ends_) events_.on_owner_end(head_.process(), end);
}

task<std::vector<DeviceProcess>> Agent::launch(LaunchRequest request) {
  head_.check(context_.caller(), request.term);
  check_not_leaving();
  check_name("the name of a mesh", request.key.name);
  return slots_.launch(std::move(request));
}

std::uint32_t Agent::device_ready(std::uint64_t slot, const MemoryCap& cap) {
  return slots_.ready(slot, context_.caller(), cap);
}

void Agent::process_timed_out(ProcessId process, std::int64_t silence_ns) {
  check_called_locally();
  slots_.timed_out(process, silence_ns);
}

task<void> Agent::stop_mesh(MeshKey key, bool failed, std::uint64_t term,
                            std::vector<std::uint32_t> ranks) {
  head_.check(context_.caller(), term);
  return slots_.stop_mesh(std::move(key), failed, std::move(ranks));
}

std::vector<std::uint32_t> Agent::adopt_ranks(const MeshKey& from, const MeshKey& to,
                                              const std::vector<std::uint32_t>& ranks,
                                              std::uint64_t term, ProcessId owner) {
  head_.check(context_.caller(), term);
  return slots_.adopt(from, to, ranks, owner);
}

bool Agent::are_running(const MeshKey& key, const std::vector<std::uint32_t>& ranks) const {
  return slots_.are_running(key, ranks);
}

DetachedRun Agent::start_run(const RunSubmission& submission, std::uint64_t term) {
  head_.check(context_.caller(), term);
  check_not_leaving();
  return runs_.start(submission);
}

void Agent::signal_run(std::uint64_t launch, bool now, std::uint64_t term) {
  head_.check(context_.caller(), term);
  runs_.signal(launch, now);
}

void Agent::report_owner_exit(const RunResult& end) {
  const ProcessId owner = context_.caller().id;
  slots_.stop_meshes_of(owner);
  owner_ends_.push_back({owner, end});
  if (owner_ends_.size() > kKeptOwnerEnds) owner_ends_.pop_front();
  events_.on_owner_end(head_.process(), owner_ends_.back());
}

task<bool> Agent::probe(ProcessRef other) {
  auto answer =
      context_.system().named<Agent>(other, "agent").within(kProbeWithin).call<&Agent::ping>();
  try {
    co_await answer;
  } catch (const Error&) {
    co_return false;
  }
  co_return true;
}

std::uint16_t Agent::open_trial(const std::string& address) {
  const std::uint64_t number = next_trial_++;
  const ProbeListener& listener = trials_.emplace(number, ProbeListener(address)).first->second;
  auto poster = context_.poster();
  context_.system().run_after(kTrialIsOpenFor, [this, poster, number]() mutable {
    poster.post([this, number] { trials_.erase(number); });
  });
  return listener.port();
}

task<std::vector<std::uint8_t>> Agent::try_connections(std::vector<ConnectionProbe> trials) {
  ConnectionProbes connections(trials);
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + kTrialWithin;
  while (!connections.poll_once() && clock.now() < give_up)
    co_await context_.sleep(kLookAtTrialsEvery);
  co_return connections.reached();
}

task<void> Agent::drain() {
  check_called_locally();
  leaving_ = true;
  runs_.interrupt_all();
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + kInterruptedRunsEndWithin;
  while (runs_.size() > 0 && clock.now() < give_up) co_await context_.sleep(kLookAtRunsEvery);
}

void Agent::shut_down(const std::string& reason, std::uint64_t term) {
  head_.check(context_.caller(), term);
  slots_.expect_ends();
  events_.on_shut_down(reason);
}

}  // namespace weft::actors
