#include "actors/agent/device_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "actors/agent/binary_hashes.h"
#include "actors/supervision/stopped_process.h"
#include "actors/system/system.h"

namespace weft::actors {
namespace {

constexpr auto kReadyWithin = std::chrono::seconds(20);
/// Grace period of processes that end in good order, and of those whose owner has ended.
constexpr Nanoseconds kStopGrace = std::chrono::seconds(2);

}  // namespace

DeviceSlots::DeviceSlots(Context& context, const AgentConfig& config, const AgentEvents& events,
                         const JoinedHead& head, ProcessLauncher& launcher,
                         std::function<void()> on_change)
    : context_(context),
      config_(config),
      events_(events),
      head_(head),
      launcher_(launcher),
      on_change_(std::move(on_change)),
      programs_(config_.program_directory, config_.hash_directory),
      changed_(context.make_wakeup()) {}

DeviceSlots::~DeviceSlots() {
  for (const auto& [id, slot] : slots_) launcher_.stop(slot.pid, Nanoseconds::zero());
}

std::string DeviceSlots::program_of(const LaunchRequest& request) const {
  const std::filesystem::path binary = request.binary;
  if (const auto kept = programs_.find(binary.filename().string(), request.binary_sha256))
    return kept->string();
  check_binary(config_.name, request.binary, request.binary_sha256, config_.hash_directory);
  return programs_.keep(binary, request.binary_sha256).string();
}

void DeviceSlots::start(std::uint64_t id, const LaunchRequest& request,
                        const DeviceLaunch& device) {
  DeviceSlot& slot = slots_[id];
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
                  "--run",        std::to_string(request.run),
                  "--token-fd",   std::to_string(kSecretDescriptor),
                  "--unused-ms",  std::to_string(head_.grace_ns() / 1'000'000)};
  if (request.is_shared_process) spec.command.insert(spec.command.end(), {"--shared-process", "1"});
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
  on_change_();
}

void DeviceSlots::erase(std::uint64_t id) {
  slots_.erase(id);
  on_change_();
}

DeviceProcess DeviceSlots::process_of(const DeviceSlot& slot) const {
  return {slot.device.rank,
          {config_.name, slot.device.device},
          slot.process.value_or(ProcessRef()),
          slot.pid,
          slot.log_file,
          slot.cap,
          context_.system().self()};
}

void DeviceSlots::add_to(AgentReport& report) const {
  for (const auto& [id, slot] : slots_)
    if (!slot.reaped && !slot.death) report.running.push_back({slot.key, process_of(slot)});
  for (const auto& [key, deaths] : deaths_)
    report.deaths.insert(report.deaths.end(), deaths.begin(), deaths.end());
}

std::optional<Error> DeviceSlots::start_failure(const MeshKey& key, std::uint64_t term,
                                                const std::vector<std::uint64_t>& ids) const {
  if (term < head_.term())
    return Error(
        ErrorCode::kStaleEpoch,
        fmt::format("mesh {} was not started: a newer head has replaced the head that requested it",
                    key.name));
  for (const std::uint64_t id : ids) {
    const auto slot = slots_.find(id);
    if (slot == slots_.end() || slot->second.stopping)
      return Error(
          ErrorCode::kCancelled,
          fmt::format(
              "the start of mesh {} on host {} was cancelled before its processes were ready",
              key.name, config_.name));
    const std::optional<ExitReport>& death = slot->second.death;
    if (death)
      return Error(
          death->crashed() ? ErrorCode::kInternal : ErrorCode::kPeerDied,
          fmt::format("{} on {} (pid {}) {} {}{}", slot->second.device.label, config_.name,
                      slot->second.pid,
                      death->silence_text.empty() ? "ended before it was ready:" : "is not ready:",
                      death->cause(), death->log_note()));
  }
  return std::nullopt;
}

bool DeviceSlots::all_ready(const std::vector<std::uint64_t>& ids) const {
  return std::ranges::all_of(ids,
                             [&](std::uint64_t id) { return slots_.at(id).process.has_value(); });
}

task<std::optional<Error>> DeviceSlots::await_ready(MeshKey key, std::uint64_t term,
                                                    std::vector<std::uint64_t> ids) {
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + kReadyWithin;
  while (true) {
    std::optional<Error> failure = start_failure(key, term, ids);
    if (failure || all_ready(ids)) co_return failure;
    const Nanoseconds left = give_up - clock.now();
    if (left <= Nanoseconds::zero()) {
      failure.emplace(
          ErrorCode::kDeadlineExceeded,
          fmt::format(
              "the device processes of mesh {} on {} were not ready within 20 s; see {}/{}.*.log",
              key.name, config_.name, config_.log_directory.string(), key.name));
      co_return failure;
    }
    co_await changed_.wait_for(left);
  }
}

task<std::vector<DeviceProcess>> DeviceSlots::launch(LaunchRequest request) {
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
  if (!failure) {
    auto waiting = await_ready(request.key, request.term, ids);
    failure = co_await waiting;
  }
  if (failure) {
    MeshRanks part{request.key, {}};
    for (const DeviceLaunch& device : request.devices) part.ranks.push_back(device.rank);
    stop(part, Nanoseconds::zero());
    throw *failure;
  }
  std::vector<DeviceProcess> processes;
  for (const std::uint64_t id : ids) {
    DeviceSlot& slot = slots_.at(id);
    slot.launched = true;
    processes.push_back(process_of(slot));
  }
  log_memory_caps(request.key.name, processes);
  co_return processes;
}

void DeviceSlots::log_memory_caps(const std::string& mesh,
                                  const std::vector<DeviceProcess>& processes) const {
  if (processes.empty() || processes.front().cap.bytes == 0) return;
  const MemoryCap& cap = processes.front().cap;
  context_.log().info(
      "mesh {}: each device process is capped at {}{}", mesh, cap.describe(),
      cap.fallback_reason.empty() ? "" : "; control groups are not used: " + cap.fallback_reason);
}

std::uint32_t DeviceSlots::ready(std::uint64_t id, const ProcessRef& caller, const MemoryCap& cap) {
  const auto slot = slots_.find(id);
  if (slot == slots_.end())
    throw_error(ErrorCode::kNotFound,
                "agent {}: the device process of slot {} was stopped before it was ready",
                config_.name, id);
  if (slot->second.process && slot->second.process->id != caller.id)
    throw_error(ErrorCode::kFailedPrecondition,
                "slot {} of host {} belongs to another process than {}, the caller", id,
                config_.name, caller.name);
  slot->second.process = caller;
  slot->second.cap = cap;
  changed_.notify();
  return slot->second.device.device;
}

void DeviceSlots::timed_out(ProcessId process, std::int64_t silence_ns) {
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

void DeviceSlots::died(std::uint64_t id, const ExitReport& evidence) {
  const auto found = slots_.find(id);
  if (found == slots_.end() || found->second.death) return;
  DeviceSlot& slot = found->second;
  slot.death = evidence;
  // launch() reports deaths before it returns. A process that is being stopped needs no report.
  if (slot.launched && !slot.stopping) {
    const DeathReport report{slot.key, slot.device.rank, slot.device.device, evidence};
    deaths_[slot.key].push_back(report);
    events_.on_death(head_.process(), report);
  }
  changed_.notify();
}

void DeviceSlots::reaped(std::uint64_t id) {
  const auto slot = slots_.find(id);
  if (slot == slots_.end()) return;
  // Keeps the slots of a launch() under way: it reads them, and stop() erases them if it fails.
  slot->second.reaped = true;
  if (slot->second.launched || slot->second.stopping) erase(id);
  for (const Wakeup& waiter : std::exchange(reap_waiters_, {})) waiter.notify();
}

bool DeviceSlots::MeshRanks::has(const DeviceSlot& slot) const {
  return slot.key == key &&
         (ranks.empty() || std::ranges::find(ranks, slot.device.rank) != ranks.end());
}

bool DeviceSlots::has_slots(const MeshRanks& part) const {
  return std::ranges::any_of(slots_, [&](const auto& each) { return part.has(each.second); });
}

void DeviceSlots::stop(const MeshRanks& part, Nanoseconds grace) {
  for (auto it = slots_.begin(); it != slots_.end();) {
    DeviceSlot& slot = it->second;
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

task<void> DeviceSlots::stop_mesh(MeshKey key, bool failed, std::vector<std::uint32_t> ranks) {
  if (const auto deaths = deaths_.find(key); deaths != deaths_.end()) {
    std::erase_if(deaths->second, [&](const DeathReport& death) {
      return ranks.empty() || std::ranges::find(ranks, death.rank) != ranks.end();
    });
    if (deaths->second.empty()) deaths_.erase(deaths);
  }
  const MeshRanks part{std::move(key), std::move(ranks)};
  stop(part, failed ? Nanoseconds::zero() : kStopGrace);
  while (has_slots(part)) {
    const Wakeup reaped_one = context_.make_wakeup();
    reap_waiters_.push_back(reaped_one);
    co_await reaped_one.wait();
  }
}

void DeviceSlots::stop_meshes_of(ProcessId owner) {
  std::set<MeshKey> meshes;
  for (const auto& [id, slot] : slots_)
    if (slot.owner == owner) meshes.insert(slot.key);
  for (const MeshKey& key : meshes) stop({key, {}}, kStopGrace);
}

std::vector<std::uint32_t> DeviceSlots::adopt(const MeshKey& from, const MeshKey& to,
                                              const std::vector<std::uint32_t>& ranks,
                                              ProcessId owner) {
  std::vector<std::uint32_t> adopted;
  for (auto& [id, slot] : slots_) {
    if (slot.key != from || std::ranges::find(ranks, slot.device.rank) == ranks.end()) continue;
    if (!slot.is_running()) continue;
    slot.key = to;
    slot.owner = owner;
    adopted.push_back(slot.device.rank);
  }
  return adopted;
}

bool DeviceSlots::are_running(const MeshKey& key, const std::vector<std::uint32_t>& ranks) const {
  return std::ranges::all_of(ranks, [&](std::uint32_t rank) {
    return std::ranges::any_of(slots_, [&](const auto& each) {
      const DeviceSlot& slot = each.second;
      return slot.key == key && slot.device.rank == rank && slot.is_running();
    });
  });
}

void DeviceSlots::expect_ends() {
  for (auto& [id, slot] : slots_) slot.stopping = true;
}

}  // namespace weft::actors
