#include "actors/agent/agent.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "actors/agent/binary_hashes.h"
#include "actors/supervision/stopped_process.h"
#include "actors/system/system.h"
#include "core/base/error.h"
#include "core/base/name.h"
#include "core/base/thread.h"

namespace weft::actors {
namespace {

constexpr auto kReadyWithin = std::chrono::seconds(20);
constexpr auto kStopGrace = std::chrono::seconds(2);
constexpr auto kProbeWithin = std::chrono::seconds(2);
constexpr auto kTrialWithin = std::chrono::seconds(1);
constexpr auto kTrialIsOpenFor = std::chrono::seconds(10);
constexpr auto kLookAtTrialsEvery = std::chrono::milliseconds(5);

}  // namespace

Agent::Agent(Context& context, AgentConfig config, AgentEvents events, ProcessLauncher& launcher)
    : context_(context),
      config_(std::move(config)),
      events_(std::move(events)),
      launcher_(launcher),
      changed_(context.make_wakeup()),
      programs_(config_.program_directory, config_.hash_directory) {
  set_thread_priority(ThreadPriority::kControl);
}

Agent::~Agent() {
  for (const auto& [id, slot] : slots_) launcher_.stop(slot.pid, Nanoseconds::zero());
  for (const auto& [launch, pid] : runs_) launcher_.stop(pid, Nanoseconds::zero());
}

void Agent::check_binary(const std::string& binary, const std::string& sha256) {
  if (!std::filesystem::exists(binary))
    throw_error(ErrorCode::kIncompatible,
                "host {} has no file {}: put the app's binary there, the same as the driver's",
                config_.name, binary);
  const std::string found = binary_sha256(binary, config_.hash_directory);
  if (found == sha256) return;
  throw_error(ErrorCode::kIncompatible,
              "the app's binary {} on host {} differs from the driver's (SHA-256 {}... instead of "
              "{}...); copy the driver's binary to this host, or start the driver from this host's "
              "binary",
              binary, config_.name, found.substr(0, 12), sha256.substr(0, 12));
}

std::string Agent::program_of(const LaunchRequest& request) {
  const std::filesystem::path binary = request.binary;
  if (const auto kept = programs_.find(binary.filename().string(), request.binary_sha256))
    return kept->string();
  check_binary(request.binary, request.binary_sha256);
  return programs_.keep(binary, request.binary_sha256).string();
}

void Agent::start(std::uint64_t id, const LaunchRequest& request, const DeviceLaunch& device) {
  Slot& slot = slots_[id];
  slot.key = request.key;
  slot.owner = request.owner;
  slot.device = device;
  const LogId log{request.key, device.rank};
  slot.log_file = (config_.log_directory / log.file()).string();
  std::error_code none;
  const auto written = std::filesystem::file_size(slot.log_file, none);
  if (events_.on_log) events_.on_log(log, none ? 0 : written);
  ProcessSpec spec;
  spec.label = device.label;
  spec.command = {request.binary, "--weft-role=device",
                  "--agent",      to_string(config_.address),
                  "--agent-id",   std::to_string(context_.system().self().id.value()),
                  "--slot",       std::to_string(id),
                  "--label",      device.label,
                  "--sha256",     request.binary_sha256,
                  "--token-fd",   std::to_string(kSecretDescriptor),
                  "--unused-ms",  std::to_string(grace_ns_ / 1'000'000)};
  if (config_.insecure) spec.command.emplace_back("--insecure");
  spec.secret = context_.system().token();
  spec.environment = request.environment;
  spec.memory_cap = request.memory_cap;
  spec.log_file = slot.log_file;
  auto poster = context_.poster();
  try {
    slot.pid = launcher_.launch(spec, {[this, poster, id](const ExitReport& evidence) mutable {
                                         poster.post([this, id, evidence] { died(id, evidence); });
                                       },
                                       [this, poster, id](const ExitReport&) mutable {
                                         poster.post([this, id] { reaped(id); });
                                       },
                                       [this, poster, id](const ExitReport& evidence) mutable {
                                         poster.post([this, id, evidence] { died(id, evidence); });
                                       }});
  } catch (...) {
    slots_.erase(id);
    throw;
  }
  events_.on_processes(num_processes());
}

void Agent::erase(std::uint64_t id) {
  slots_.erase(id);
  events_.on_processes(num_processes());
}

void Agent::check_called_locally() const {
  if (context_.caller().id != context_.system().self().id)
    throw_error(ErrorCode::kInvalidArgument, "only the agent's own process may call this");
}

void Agent::check_head(std::uint64_t term) const {
  if (term < term_)
    throw_error(ErrorCode::kStaleEpoch,
                "host {} rejected a request of an old head: term {} has replaced term {}; stop the "
                "old head",
                config_.name, term_, term);
  const ProcessRef caller = context_.caller();
  if (caller.id != head_.id && caller.id != next_head_.id)
    throw_error(ErrorCode::kFailedPrecondition,
                "host {} rejected the request: it accepts it from its cluster's head only, and {} "
                "is not that head",
                config_.name, caller.name);
}

void Agent::check_not_leaving() const {
  if (leaving_)
    throw_error(ErrorCode::kUnavailable,
                "host {} is leaving the cluster and starts no new processes; use another host",
                config_.name);
}

AgentReport Agent::devices() const {
  AgentReport devices;
  for (const auto& [id, slot] : slots_) {
    if (slot.reaped || slot.death) continue;
    devices.running.push_back({slot.key,
                               {slot.device.rank,
                                {config_.name, slot.device.device},
                                slot.process.value_or(ProcessRef()),
                                slot.pid,
                                slot.log_file,
                                slot.cap,
                                context_.system().self()}});
  }
  for (const auto& [key, deaths] : deaths_)
    devices.deaths.insert(devices.deaths.end(), deaths.begin(), deaths.end());
  devices.owners_ended.assign(owner_ends_.begin(), owner_ends_.end());
  return devices;
}

AgentReport Agent::prepare_join(ProcessRef head) {
  check_called_locally();
  next_head_ = std::move(head);
  return devices();
}

void Agent::complete_join(ProcessRef head, std::uint64_t term, std::int64_t grace_ns) {
  check_called_locally();
  head_ = next_head_ = std::move(head);
  term_ = term;
  grace_ns_ = grace_ns;
  changed_.notify();
  // Reports recent ends again: the head may have been away at the first report.
  for (const DetachedRunExit& end : run_ends_) events_.on_run_end(head_, end);
  for (const OwnerExit& end : owner_ends_) events_.on_owner_end(head_, end);
}

task<std::vector<DeviceProcess>> Agent::launch(LaunchRequest request) {
  check_head(request.term);
  check_not_leaving();
  check_name("the name of a mesh", request.key.name);
  request.binary = program_of(request);
  std::vector<std::uint64_t> ids;
  std::optional<Error> failure;
  try {
    for (const DeviceLaunch& device : request.devices) {
      const std::uint64_t id = ++last_slot_;
      start(id, request, device);
      ids.push_back(id);
    }
  } catch (...) {
    failure = current_error();
  }
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + kReadyWithin;
  while (!failure) {
    if (request.term < term_) {
      failure =
          Error(ErrorCode::kStaleEpoch,
                fmt::format(
                    "mesh {} was not started: a newer head has replaced the head that requested it",
                    request.key.name));
      break;
    }
    std::size_t ready = 0;
    for (const std::uint64_t id : ids) {
      const auto slot = slots_.find(id);
      if (slot == slots_.end() || slot->second.stopping) {
        failure = Error(
            ErrorCode::kCancelled,
            fmt::format(
                "the start of mesh {} on host {} was cancelled before its processes were ready",
                request.key.name, config_.name));
        break;
      }
      if (slot->second.death) {
        failure = Error(
            slot->second.death->crashed() ? ErrorCode::kInternal : ErrorCode::kPeerDied,
            fmt::format("{} on {} (pid {}) {} {}{}", slot->second.device.label, config_.name,
                        slot->second.pid,
                        slot->second.death->silence_text.empty() ? "ended before it was ready:"
                                                                 : "is not ready:",
                        slot->second.death->cause(), slot->second.death->log_note()));
        break;
      }
      ready += slot->second.process.has_value() ? 1 : 0;
    }
    if (failure || ready == ids.size()) break;
    const Nanoseconds left = give_up - clock.now();
    if (left <= Nanoseconds::zero()) {
      failure = Error(
          ErrorCode::kDeadlineExceeded,
          fmt::format(
              "the device processes of mesh {} on {} were not ready within 20 s; see {}/{}.*.log",
              request.key.name, config_.name, config_.log_directory.string(), request.key.name));
      break;
    }
    co_await changed_.wait_for(left);
  }
  if (failure) {
    MeshRanks part{request.key, {}};
    for (const DeviceLaunch& device : request.devices) part.ranks.push_back(device.rank);
    stop_slots(part, Nanoseconds::zero());
    throw *failure;
  }
  std::vector<DeviceProcess> processes;
  for (const std::uint64_t id : ids) {
    Slot& slot = slots_.at(id);
    slot.launched = true;
    processes.push_back({slot.device.rank,
                         {config_.name, slot.device.device},
                         *slot.process,
                         slot.pid,
                         slot.log_file,
                         slot.cap,
                         context_.system().self()});
  }
  log_memory_caps(request.key.name, processes);
  co_return processes;
}

void Agent::log_memory_caps(const std::string& mesh,
                            const std::vector<DeviceProcess>& processes) const {
  if (processes.empty() || processes.front().cap.bytes == 0) return;
  const MemoryCap& cap = processes.front().cap;
  context_.log().info(
      "mesh {}: each device process is capped at {}{}", mesh, cap.describe(),
      cap.fallback_reason.empty() ? "" : "; control groups are not used: " + cap.fallback_reason);
}

std::uint32_t Agent::device_ready(std::uint64_t id, const MemoryCap& cap) {
  const auto slot = slots_.find(id);
  if (slot == slots_.end())
    throw_error(ErrorCode::kNotFound,
                "agent {}: the device process of slot {} was stopped before it was ready",
                config_.name, id);
  const ProcessRef caller = context_.caller();
  if (slot->second.process && slot->second.process->id != caller.id)
    throw_error(ErrorCode::kFailedPrecondition,
                "slot {} of host {} belongs to another process than {}, the caller", id,
                config_.name, caller.name);
  slot->second.process = caller;
  slot->second.cap = cap;
  changed_.notify();
  return slot->second.device.device;
}

void Agent::process_timed_out(ProcessId process, std::int64_t silence_ns) {
  check_called_locally();
  for (const auto& [id, slot] : slots_) {
    if (!slot.process || slot.process->id != process) continue;
    ExitReport evidence;
    evidence.has_parent_report = true;
    evidence.pid = slot.pid;
    evidence.silence_text = describe_silence(Nanoseconds(silence_ns), slot.pid);
    evidence.log_file = slot.log_file;
    evidence.read_log();
    return died(id, evidence);
  }
}

void Agent::died(std::uint64_t id, const ExitReport& evidence) {
  const auto found = slots_.find(id);
  if (found == slots_.end() || found->second.death) return;
  Slot& slot = found->second;
  slot.death = evidence;
  // launch() reports deaths before it returns. A process that is being stopped needs no report.
  if (slot.launched && !slot.stopping) {
    const DeathReport report{slot.key, slot.device.rank, slot.device.device, evidence};
    deaths_[slot.key].push_back(report);
    events_.on_death(head_, report);
  }
  changed_.notify();
}

void Agent::reaped(std::uint64_t id) {
  const auto slot = slots_.find(id);
  if (slot == slots_.end()) return;
  // Keeps the slots of a launch() under way: it reads them, and stop_slots() erases them if it
  // fails.
  slot->second.reaped = true;
  if (slot->second.launched || slot->second.stopping) erase(id);
  for (const Wakeup& waiter : std::exchange(reap_waiters_, {})) waiter.notify();
}

bool Agent::MeshRanks::has(const Slot& slot) const {
  return slot.key == key &&
         (ranks.empty() || std::ranges::find(ranks, slot.device.rank) != ranks.end());
}

bool Agent::has_slots(const MeshRanks& part) const {
  return std::ranges::any_of(slots_, [&](const auto& each) { return part.has(each.second); });
}

void Agent::stop_slots(const MeshRanks& part, Nanoseconds grace) {
  for (auto it = slots_.begin(); it != slots_.end();) {
    Slot& slot = it->second;
    if (!part.has(slot)) {
      ++it;
      continue;
    }
    slot.stopping = true;
    const std::uint64_t id = it->first;
    const bool is_reaped = slot.reaped;
    if (!is_reaped) launcher_.stop(slot.pid, grace);
    ++it;
    if (is_reaped) erase(id);
  }
  changed_.notify();
}

task<void> Agent::stop_mesh(MeshKey key, bool failed, std::uint64_t term,
                            std::vector<std::uint32_t> ranks) {
  check_head(term);
  if (const auto deaths = deaths_.find(key); deaths != deaths_.end()) {
    std::erase_if(deaths->second, [&](const DeathReport& death) {
      return ranks.empty() || std::ranges::find(ranks, death.rank) != ranks.end();
    });
    if (deaths->second.empty()) deaths_.erase(deaths);
  }
  const MeshRanks part{std::move(key), std::move(ranks)};
  stop_slots(part, failed ? Nanoseconds::zero() : Nanoseconds(kStopGrace));
  while (has_slots(part)) {
    const Wakeup reaped_one = context_.make_wakeup();
    reap_waiters_.push_back(reaped_one);
    co_await reaped_one.wait();
  }
}

std::vector<std::uint32_t> Agent::adopt_ranks(const MeshKey& from, const MeshKey& to,
                                              const std::vector<std::uint32_t>& ranks,
                                              std::uint64_t term, ProcessId owner) {
  check_head(term);
  std::vector<std::uint32_t> adopted;
  for (auto& [id, slot] : slots_) {
    if (slot.key != from || std::ranges::find(ranks, slot.device.rank) == ranks.end()) continue;
    if (!slot.launched || slot.death || slot.stopping || slot.reaped) continue;
    slot.key = to;
    slot.owner = owner;
    adopted.push_back(slot.device.rank);
  }
  return adopted;
}

bool Agent::are_running(const MeshKey& key, const std::vector<std::uint32_t>& ranks) const {
  return std::ranges::all_of(ranks, [&](std::uint32_t rank) {
    return std::ranges::any_of(slots_, [&](const auto& each) {
      const Slot& slot = each.second;
      return slot.key == key && slot.device.rank == rank && slot.launched && !slot.death &&
             !slot.stopping && !slot.reaped;
    });
  });
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

void Agent::drain() {
  check_called_locally();
  leaving_ = true;
  for (const auto& [launch, pid] : runs_) launcher_.signal(pid, SIGINT);
}

void Agent::shut_down(const std::string& reason, std::uint64_t term) {
  check_head(term);
  for (auto& [id, slot] : slots_) slot.stopping = true;
  events_.on_shut_down(reason);
}

}  // namespace weft::actors
