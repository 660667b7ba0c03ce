#include "actors/head/head.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>

#include "actors/agent/agent.h"
#include "actors/head/head_notifications.h"
#include "actors/supervision/stopped_process.h"
#include "actors/system/system.h"
#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/name.h"
#include "core/base/platform.h"
#include "core/base/thread.h"

namespace weft::actors {
namespace {

constexpr auto kLaunchWithin = std::chrono::seconds(30);
constexpr std::size_t kConcurrentStartsPerProcessor = 2;
constexpr auto kReleaseTimeout = std::chrono::seconds(5);
constexpr std::size_t kEventsInStatus = 20;
/// Time for owners to reconnect to a head that is told to stop soon after its start: they must hear
/// why.
constexpr auto kOwnerReconnectGrace = std::chrono::seconds(2);
/// Longest wait in a second call of stop(). The head's process usually exits before.
constexpr auto kStopEndsWithin = Head::kRunsEndWithin + std::chrono::seconds(10);
constexpr auto kOwnerPollInterval = std::chrono::milliseconds(20);
constexpr auto kOwnerAnswersWithin = std::chrono::seconds(1);

/// Waits for all answers. Ignores errors: a process that does not answer has ended, as it was asked
/// to.
task<void> settle(std::vector<Future<void>> answers) {
  for (Future<void>& answer : answers) {
    try {
      co_await answer;
    } catch (const Error&) {
    }
  }
}

/// Launches of one machine, in turns. No more devices start at once than its processors can handle:
/// a thousand starting processes would delay the heartbeats of running ones.
class MachineLaunchQueue final {
 public:
  using Answer = Future<std::vector<DeviceProcess>>;

  void add(std::uint32_t processors, ActorRef<Agent> agent, LaunchRequest request) {
    limit_ = std::max<std::size_t>(limit_, kConcurrentStartsPerProcessor * processors);
    waiting_.push_back({std::move(agent), std::move(request)});
  }
  void begin() {
    while (!waiting_.empty() &&
           (starting_ == 0 || starting_ + devices(waiting_.front()) <= limit_)) {
      Turn& turn = waiting_.front();
      starting_ += devices(turn);
      under_way_.emplace_back(devices(turn),
                              turn.agent.within(kLaunchWithin).call<&Agent::launch>(turn.request));
      waiting_.pop_front();
    }
  }
  /// Returns the oldest launch under way, or nothing when all are done. Await it before the next
  /// call.
  std::optional<Answer> next() {
    starting_ -= std::exchange(awaited_, 0);
    begin();
    if (under_way_.empty()) return std::nullopt;
    awaited_ = under_way_.front().first;
    std::optional<Answer> answer(std::move(under_way_.front().second));
    under_way_.pop_front();
    return answer;
  }
  /// Drops launches that have not begun.
  void drop() { waiting_.clear(); }

 private:
  struct Turn {
    ActorRef<Agent> agent;
    LaunchRequest request;
  };
  static std::size_t devices(const Turn& turn) { return turn.request.devices.size(); }

  std::size_t limit_ = 0;
  std::size_t starting_ = 0;
  std::size_t awaited_ = 0;
  std::deque<Turn> waiting_;
  std::deque<std::pair<std::size_t, Answer>> under_way_;
};

ClusterEvent event_now(std::string text) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), std::move(text)};
}

}  // namespace

Head::Head(Context& context, HeadConfig config, HeadEvents events)
    : context_(context),
      config_(std::move(config)),
      events_(std::move(events)),
      started_(clock_.now()),
      store_(config_.state_directory, events_.on_warning,
             config_.ephemeral ? StateStore::Durability::kProcessExit
                               : StateStore::Durability::kPowerLoss),
      runs_(store_),
      incidents_(clock_) {
  set_thread_priority(ThreadPriority::kControl);
  if (config_.ignore_saved_members) store_.erase_member_rows();
  read_rows();
  close_unreported_runs("had ended when this head began");
  event(fmt::format(
      "head is up: cluster {}, term {}, at {}{}", store_.cluster_id().substr(0, 12), store_.term(),
      to_string(config_.address),
      hosts_.empty() && owners_.empty()
          ? ""
          : fmt::format("; restarted: waiting up to {:.0f} s for {} host{} and {} run{} to "
                        "reconnect",
                        in_seconds(config_.grace), hosts_.size(), hosts_.size() == 1 ? "" : "s",
                        owners_.size(), owners_.size() == 1 ? "" : "s")));
}

void Head::event(std::string text, const std::string& logged) {
  ClusterEvent event = event_now(std::move(text));
  store_.add_event(event);
  if (!logged.empty()) event.text = logged;
  events_.on_event(event);
  notify_change_waiters();
}

void Head::record_refusal(const std::string& text) {
  check_called_locally();
  store_.add_event(event_now(text));  // The log has it already.
}

TokenRotation Head::rotate_token() {
  std::vector<ProcessId> members;
  for (const auto& [name, host] : hosts_) members.push_back(host.agent.id);
  for (const auto& [id, owner] : owners_) members.push_back(id);
  if (!events_.rotate_token)
    throw_error(ErrorCode::kFailedPrecondition,
                "the token was not replaced: this head was started with a token from outside; "
                "replace it there");
  TokenRotation rotated = events_.rotate_token(members);
  event(fmt::format("the cluster's token was replaced; the head sent it to {} process{}",
                    rotated.notified, rotated.notified == 1 ? "" : "es"));
  return rotated;
}

std::string Head::actor_label(const MeshRequest& request, std::uint32_t rank) const {
  return request.mesh + to_string(request.shape, request.shape.coordinates(rank));
}

void Head::check_request(const MeshRequest& request, ProcessId owner) const {
  if (!owners_.contains(owner))
    throw_error(ErrorCode::kFailedPrecondition,
                "only a program that is registered with the head may start a mesh; connect it with "
                "actors::Cluster");
  check_name("the name of a mesh", request.mesh);
  request.shape.check();
  for (const MeshAxis& axis : request.shape.axes())
    check_name("the name of an axis of mesh " + request.mesh, axis.name);
}

std::map<std::string, LaunchRequest> Head::launches_of(const MeshKey& key, const Mesh& mesh) const {
  std::map<std::string, LaunchRequest> launches;
  for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank) {
    LaunchRequest& launch = launches[mesh.places[rank].host];
    launch.key = key;
    launch.term = store_.term();
    launch.binary = mesh.request.binary;
    launch.binary_sha256 = mesh.request.binary_sha256;
    launch.environment = mesh.request.environment;
    launch.memory_cap = mesh.request.memory_cap;
    launch.owner = mesh.owner;
    launch.devices.push_back({rank, mesh.places[rank].device, actor_label(mesh.request, rank)});
  }
  return launches;
}

task<std::vector<DeviceProcess>> Head::launch(std::map<std::string, LaunchRequest> launches) {
  std::map<std::string, MachineLaunchQueue> turns;  // Launches by machine.
  for (auto& [host, request] : launches) {
    const Host& of = hosts_.at(host);
    turns[of.offer.machine].add(
        of.offer.processors, context_.system().named<Agent>(of.agent, "agent"), std::move(request));
  }
  for (auto& [machine, waiting] : turns) waiting.begin();
  std::vector<DeviceProcess> processes;
  std::optional<Error> failure;
  for (bool more = true; more;) {
    more = false;
    for (auto& [machine, waiting] : turns) {
      auto next = waiting.next();
      if (!next) continue;
      more = true;
      MachineLaunchQueue::Answer& answer = *next;
      try {
        const std::vector<DeviceProcess> started = co_await answer;
        processes.insert(processes.end(), started.begin(), started.end());
      } catch (...) {
        if (!failure) failure = current_error();
      }
      if (failure)
        for (auto& [other, rest] : turns) rest.drop();
    }
  }
  if (failure) throw *failure;
  co_return processes;
}

std::optional<Error> Head::start_failure(const MeshKey& key) const {
  const auto mesh = meshes_.find(key);
  if (mesh == meshes_.end() || mesh->second.releasing)
    return Error(
        ErrorCode::kCancelled,
        fmt::format("the start of mesh {} was cancelled: its owner released it", key.name));
  if (mesh->second.failed)
    return Error(ErrorCode::kPeerDied,
                 fmt::format("a host of mesh {} died while the mesh started", key.name));
  return std::nullopt;
}

task<MeshProcesses> Head::spawn(MeshRequest request) {
  const ProcessId owner = context_.caller().id;
  check_request(request, owner);
  std::vector<HostDevice> places;
  try {
    places = allocator_.find_devices(request);
  } catch (const Error& error) {
    // Owners that name places choose others themselves.
    const bool passes = waits_for_devices() && request.places.empty() &&
                        error.code() != ErrorCode::kInvalidArgument;
    throw Error(passes ? ErrorCode::kUnavailable : error.code(),
                error.message() + removed_hosts_note(request));
  }
  const std::uint64_t registration = owners_.at(owner).registration_count;
  const MeshKey key{request.mesh, store_.next_mesh_epoch(request.mesh)};
  allocator_.assign(places, key);
  Mesh& mesh = meshes_[key];
  mesh.request = request;
  mesh.owner = owner;
  mesh.places = std::move(places);
  save(key, mesh);
  store_.sync_to_disk();

  MeshProcesses result{key, std::vector<DeviceProcess>(mesh.places.size())};
  std::optional<Error> failure;
  try {
    const std::vector<DeviceProcess> started = co_await launch(launches_of(key, mesh));
    for (const DeviceProcess& process : started) result.processes.at(process.rank) = process;
  } catch (...) {
    failure = current_error();
  }
  // The owner may have left or a host may have died meanwhile: then the mesh is released or failed.
  const auto now = meshes_.find(key);
  if (failure && now != meshes_.end()) now->second.failed = true;
  if (!failure) failure = start_failure(key);
  if (!failure && owners_.at(owner).registration_count != registration)
    failure = Error(ErrorCode::kCancelled,
                    fmt::format("mesh {}: the driver that requested it disconnected", key.name));
  if (failure) {
    if (const auto left = meshes_.find(key); left != meshes_.end()) {
      if (left->second.incident) failure = left->second.incident->error();
      begin_release(key, left->second);
      // Waits until devices are free for the next attempt; those of a silent host stay taken.
      const Wakeup released = context_.make_wakeup();
      left->second.waiters.push_back(released);
      co_await released.wait_for(kReleaseTimeout);
    }
    throw *failure;
  }
  now->second.processes = result.processes;
  save(key, now->second);
  record_devices(key, now->second);
  store_.sync_to_disk();
  event(fmt::format("mesh {} (epoch {}, {}) is running for {}", key.name, key.epoch,
                    to_string(request.shape), owners_.at(owner).offer.name));
  co_return result;
}

void Head::process_died(const DeathReport& report) {
  const auto mesh = meshes_.find(report.key);
  if (mesh == meshes_.end() || mesh->second.releasing || report.rank >= mesh->second.places.size())
    return;
  const ProcessId caller = context_.caller().id;
  const Host* const host = host_of(caller);
  const bool is_its_agent =
      host != nullptr && host->offer.name == mesh->second.places[report.rank].host;
  if (!is_its_agent && mesh->second.owner != caller) return;
  fail(report.key, mesh->second, report.rank, report.evidence, "", false);
}

void Head::fail(const MeshKey& key, Mesh& mesh, std::uint32_t rank, const ExitReport& evidence,
                const std::string& host_failure, bool local_log) {
  ProcessFailure failure;
  failure.actor = actor_label(mesh.request, rank);
  failure.mesh = key.name;
  failure.epoch = key.epoch;
  failure.rank = rank;
  failure.host = mesh.places[rank].host;
  failure.device = mesh.places[rank].device;
  failure.pid = rank < mesh.processes.size() ? mesh.processes[rank].pid : 0;
  failure.evidence = evidence;
  failure.host_failure = host_failure;
  if (failure.evidence.log_file.empty() && rank < mesh.processes.size()) {
    failure.evidence.log_file = mesh.processes[rank].log_file;
    if (local_log) failure.evidence.read_log();
  }
  const Incident& incident = incidents_.record(failure).incident;
  mesh.failed = true;
  mesh.incident = incident;
  mesh.dead.insert(rank);
  save(key, mesh);
  // The owner comes first, then the records.
  notify_mesh_failed(mesh);
  store_.add_incident(incident);
  const auto owner = owners_.find(mesh.owner);
  const std::string run = owner == owners_.end() ? "" : owner->second.offer.name;
  event(run.starts_with("run ") && !failure.is_whole_mesh()
            ? fmt::format("{}; weft logs {} '{}'", failure.summary(), run.substr(4), failure.actor)
            : failure.summary(),
        failure.describe());
}

void Head::notify_mesh_failed(const Mesh& mesh) {
  const auto owner = owners_.find(mesh.owner);
  if (owner == owners_.end() || owner->second.away_since) return;
  MeshFailure failure{*mesh.incident, {}, {}};
  for (std::uint32_t rank = 0; rank < mesh.processes.size(); ++rank) {
    const ProcessId process = mesh.processes[rank].process.id;
    if (process == ProcessId()) continue;
    failure.mesh_processes.push_back(process);
    if (mesh.dead.contains(rank)) failure.dead.push_back(process);
  }
  context_.system()
      .named<HeadNotifications>(owner->second.process, "watcher")
      .tell<&HeadNotifications::mesh_failed>(failure);
}

void Head::set_device_descriptions(MeshDevices devices) {
  // The mesh may have been released meanwhile, or given to the next driver.
  const auto mesh = meshes_.find(devices.key);
  if (mesh == meshes_.end() || mesh->second.owner != context_.caller().id) return;
  mesh->second.devices = std::move(devices.devices);
  save(mesh->first, mesh->second);
}

void Head::report_progress(RunProgress progress) {
  const auto owner = owners_.find(context_.caller().id);
  if (owner == owners_.end()) return;
  owner->second.progress = std::move(progress);
  owner->second.progress_at = clock_.now();
}

ClusterStatus Head::status() {
  ClusterStatus status;
  status.cluster = store_.cluster_id();
  status.term = store_.term();
  status.address = to_string(config_.address);
  status.pid = process_id();
  status.up_seconds = in_seconds(clock_.now() - started_);
  for (const auto& [name, host] : hosts_) {
    HostStatus line{host.offer,
                    to_string(host.agent.address),
                    std::vector<std::string>(host.offer.devices),
                    in_seconds(clock_.now() - host.joined),
                    std::nullopt,
                    host.suspect,
                    host.leaving.has_value(),
                    host.agent};
    if (host.away_since) line.unreachable_seconds = in_seconds(clock_.now() - *host.away_since);
    for (const auto& [key, mesh] : meshes_) {
      for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank) {
        if (mesh.places[rank].host != name || mesh.detached_ranks.contains(rank)) continue;
        // The host has fewer devices now.
        if (mesh.places[rank].device >= line.device_users.size()) continue;
        const std::string pid = rank < mesh.processes.size() && mesh.processes[rank].pid != 0
                                    ? fmt::format(" pid {}", mesh.processes[rank].pid)
                                    : " starting";
        std::string& user = line.device_users[mesh.places[rank].device];
        user = actor_label(mesh.request, rank) + pid;
        if (rank < mesh.devices.size()) user += ", " + mesh.devices[rank];
        if (rank < mesh.processes.size() && mesh.processes[rank].cap.bytes != 0)
          user += ", at most " + mesh.processes[rank].cap.describe();
      }
    }
    status.hosts.push_back(std::move(line));
  }
  for (const auto& [key, mesh] : meshes_) {
    const auto owner = owners_.find(mesh.owner);
    status.meshes.push_back({key, to_string(mesh.request.shape),
                             owner == owners_.end() ? "" : owner->second.offer.name,
                             mesh.releasing           ? "ending"
                             : mesh.renewing          ? "recovering"
                             : mesh.failed            ? "failed"
                             : mesh.processes.empty() ? "starting"
                                                      : "running",
                             mesh.places});
  }
  for (const auto& [id, owner] : owners_) {
    RunStatus run{owner.offer.name, owner.offer.pid, owner.progress.has_value(), {}, 0};
    if (owner.progress) {
      run.progress = *owner.progress;
      run.progress_age_seconds = in_seconds(clock_.now() - owner.progress_at);
    }
    if (owner.away_since) run.unreachable_seconds = in_seconds(clock_.now() - *owner.away_since);
    status.runs.push_back(std::move(run));
  }
  status.events = store_.last_events(kEventsInStatus);
  return status;
}

std::vector<std::string> Head::incidents() { return store_.incidents(); }

task<void> Head::end_runs() {
  std::vector<std::pair<ProcessId, Future<std::string>>> asked;
  for (const auto& [id, owner] : owners_)
    if (!owner.away_since)
      asked.emplace_back(id, context_.system()
                                 .named<HeadNotifications>(owner.process, "watcher")
                                 .within(kOwnerAnswersWithin)
                                 .call<&HeadNotifications::cancel>(false));
  std::vector<ProcessId> ending;
  for (auto& [id, answer] : asked) {
    try {
      co_await answer;
      ending.push_back(id);
    } catch (const Error&) {
      continue;  // Owners without `weft cancel` are not awaited.
    }
  }
  const TimePoint give_up = clock_.now() + kRunsEndWithin;
  const auto runs = [this](ProcessId id) {
    const auto owner = owners_.find(id);
    return owner != owners_.end() && !owner->second.away_since;
  };
  while (std::ranges::any_of(ending, runs) && clock_.now() < give_up)
    co_await context_.sleep(kOwnerPollInterval);
}

task<void> Head::stop(std::string reason, bool now) {
  if (std::exchange(stop_begun_, true) && !now) {
    co_await context_.sleep(kStopEndsWithin);
    co_return;
  }
  event("the cluster stops: " + reason);
  if (!now) {
    auto ending = end_runs();
    co_await ending;
  }
  if (std::exchange(stopping_, true)) {
    co_await context_.sleep(kStopEndsWithin);
    co_return;
  }
  const TimePoint give_up = clock_.now() + kOwnerReconnectGrace;
  const auto is_away = [](const auto& of) { return of.second.away_since.has_value(); };
  while (std::ranges::any_of(owners_, is_away) && clock_.now() < give_up)
    co_await context_.sleep(kOwnerPollInterval);
  // Owners come first: they must hear why before the last errors of their devices reach them.
  std::vector<Future<void>> told;
  for (const auto& [id, owner] : owners_) {
    auto watcher = context_.system().named<HeadNotifications>(owner.process, "watcher");
    told.push_back(
        watcher.within(std::chrono::seconds(1)).call<&HeadNotifications::cluster_stops>(reason));
  }
  co_await settle(std::move(told));
  told.clear();
  for (const auto& [name, host] : hosts_) {
    auto agent = context_.system().named<Agent>(host.agent, "agent");
    told.push_back(
        agent.within(std::chrono::seconds(1)).call<&Agent::shut_down>(reason, store_.term()));
  }
  co_await settle(std::move(told));
  owners_.clear();
  close_unreported_runs("was stopped with the cluster: " + reason);
  store_.erase_member_rows();
  store_.sync_to_disk();
  events_.on_stop(reason);
}

}  // namespace weft::actors
