#include "actors/cluster/mesh_supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

namespace weft::actors {
namespace {

/// Pause before another attempt. It doubles with each.
constexpr Nanoseconds kFirstPause = std::chrono::milliseconds(100);
constexpr Nanoseconds kLongestPause = std::chrono::seconds(10);
/// Wait for devices after which the operator is told.
constexpr Nanoseconds kReportWaitAfter = std::chrono::seconds(2);

/// Returns whether an attempt with the same arguments fails again.
bool is_permanent(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCancelled:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kInternal:
    case ErrorCode::kPeerDied:
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kStaleEpoch:
    case ErrorCode::kUnavailable: return false;
    default: return true;
  }
}

}  // namespace

/// Mesh under supervision. Members without a mark belong to the thread that restarts it, or to
/// end(), which waits for that thread.
struct MeshSupervisor::Mesh {
  Mesh(const MeshKey& mesh_key, const SpawnOptions& spawn_options)
      : name(mesh_key.name),
        options(spawn_options),
        budget(spawn_options.restarts.value_or(SpawnOptions::kDefaultRestarts),
               spawn_options.within),
        key(mesh_key) {}

  const std::string name;
  const SpawnOptions options;
  SpawnedActors actors;
  RestartBudget budget;
  bool given_up = false;
  std::set<ProcessId> idle;  // processes in place of those of ended actors

  MeshKey key;                       // guarded: read by others, too
  std::deque<MeshFailure> failures;  // guarded: reported and not handled yet
  bool busy = true;                  // guarded: the thread runs, or the actors are constructed
  bool ending = false;               // guarded
  std::optional<Error> ending_why;   // guarded: set if the cluster was lost
  Thread thread;                     // guarded
};

MeshSupervisor::~MeshSupervisor() {
  std::vector<MeshKey> keys;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, mesh] : meshes_) keys.push_back(key);
  }
  for (const MeshKey& key : keys) end(key);
}

void MeshSupervisor::add(const MeshKey& key, const SpawnOptions& options) {
  auto mesh = std::make_shared<Mesh>(key, options);
  const std::lock_guard lock(mutex_);
  meshes_.emplace(key, std::move(mesh));
}

void MeshSupervisor::begin(const MeshKey& key, SpawnedActors actors) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Mesh>& mesh = meshes_.at(key);
  mesh->actors = std::move(actors);
  mesh->busy = !mesh->failures.empty();
  if (mesh->busy) start_thread(mesh);
  changed_.notify_all();
}

bool MeshSupervisor::supervises(const MeshKey& key) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(meshes_,
                             [&](const auto& entry) { return entry.second->name == key.name; });
}

std::optional<MeshPlacement> MeshSupervisor::placement_of(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, mesh] : meshes_)
    if (mesh->name == name) return mesh->options.place;
  return std::nullopt;
}

bool MeshSupervisor::failed(const MeshFailure& failure) {
  const std::lock_guard lock(mutex_);
  // An earlier mesh of that name may be about to be forgotten.
  auto found = meshes_.upper_bound({failure.incident.mesh, failure.incident.epoch});
  if (found == meshes_.begin() || (--found)->first.name != failure.incident.mesh) return false;
  const std::shared_ptr<Mesh>& mesh = found->second;
  if (mesh->ending) return true;
  mesh->failures.push_back(failure);
  if (!std::exchange(mesh->busy, true)) start_thread(mesh);
  return true;
}

void MeshSupervisor::start_thread(const std::shared_ptr<Mesh>& mesh) {
  // The thread of an earlier restart has finished.
  if (mesh->thread.joinable()) mesh->thread.join();
  mesh->thread =
      Thread("restart " + mesh->name, ThreadPriority::kOrdinary, [this, mesh] { run(*mesh); });
}

std::optional<MeshFailure> MeshSupervisor::next_failure(Mesh& mesh) {
  const std::lock_guard lock(mutex_);
  // A later epoch has replaced what died.
  std::erase_if(mesh.failures, [&](const MeshFailure& failure) {
    return failure.incident.epoch < mesh.key.epoch;
  });
  if (mesh.failures.empty() || mesh.ending || mesh.given_up) {
    if (mesh.ending_why && !mesh.given_up)
      for (const auto& actor : mesh.actors.addresses)
        actions_.end_supervision(*actor, *mesh.ending_why);
    mesh.busy = false;
    changed_.notify_all();
    return std::nullopt;
  }
  // The last report of an incident is the most complete one.
  MeshFailure all = mesh.failures.back();
  for (const MeshFailure& failure : mesh.failures)
    all.dead.insert(all.dead.end(), failure.dead.begin(), failure.dead.end());
  mesh.failures.clear();
  return all;
}

void MeshSupervisor::run(Mesh& mesh) {
  while (const auto failure = next_failure(mesh)) {
    std::optional<Error> lost;
    try {
      restart(mesh, *failure);
    } catch (...) {
      lost = current_error();
    }
    if (!lost) continue;
    mesh.given_up = true;
    for (const auto& actor : mesh.actors.addresses) actions_.restart_ends(*actor, *lost);
    if (!is_ending(mesh)) actions_.give_up(failure->incident, *lost);
  }
}

OnFailure MeshSupervisor::decide(const Mesh& mesh, const Incident& incident) const {
  if (!mesh.options.decide) return mesh.options.policy();
  const OnFailure policy = mesh.options.decide(incident);
  return policy == OnFailure::kUnspecified ? OnFailure::kOneForOne : policy;
}

bool MeshSupervisor::only_ended_died(const Mesh& mesh, const MeshFailure& failure) const {
  bool any = std::ranges::any_of(failure.dead,
                                 [&](ProcessId process) { return mesh.idle.contains(process); });
  for (const auto& actor : mesh.actors.addresses) {
    const bool has_ended = actions_.has_ended(*actor);
    if (std::ranges::find(failure.dead, actor->process.id) == failure.dead.end()) continue;
    if (!has_ended) return false;
    any = true;
  }
  return any;
}

std::set<std::uint32_t> MeshSupervisor::affected_ranks(const Mesh& mesh, const MeshFailure& failure,
                                                       OnFailure policy) const {
  std::set<std::uint32_t> ranks;
  const auto& addresses = mesh.actors.addresses;
  const std::set<ProcessId> dead(failure.dead.begin(), failure.dead.end());
  std::set<ProcessId> without_some;  // Processes that live, and have lost actors.
  for (const auto& actor : addresses)
    if (is_lost_actor(actor->actor)) without_some.insert(actor->process.id);
  for (std::uint32_t rank = 0; rank < addresses.size(); ++rank) {
    const ActorAddress& actor = *addresses[rank];
    if (dead.contains(actor.process.id) && !actions_.has_ended(actor) &&
        (is_lost_actor(actor.actor) || !without_some.contains(actor.process.id)))
      ranks.insert(rank);
  }
  std::uint32_t first = ranks.empty() ? 0 : *ranks.begin();
  if (policy == OnFailure::kOneForAll) first = 0;
  if (policy == OnFailure::kOneForAll || policy == OnFailure::kRestForOne)
    for (std::uint32_t rank = first; rank < addresses.size(); ++rank) ranks.insert(rank);
  std::erase_if(ranks, [&](std::uint32_t rank) { return actions_.has_ended(*addresses[rank]); });
  return ranks;
}

std::size_t MeshSupervisor::count(Mesh& mesh, const RestartBudget::Death& death) const {
  const TimePoint now = SteadyClock().now();
  const RestartBudget::Decision decision = mesh.budget.record_death(death, now);
  if (decision.restart) return *decision.restart;
  std::string all;
  for (const std::string& cause : mesh.budget.causes(now)) all += "\n  " + cause;
  throw_error(
      ErrorCode::kPeerDied,
      "{} is not restarted again: it has used its limit of {} within {:.0f} s; mend the cause, or "
      "raise `restarts` of its SpawnOptions. Deaths so far:{}",
      mesh.name, mesh.budget.max_restarts(), in_seconds(mesh.budget.window()), all);
}

void MeshSupervisor::restart(Mesh& mesh, const MeshFailure& failure) {
  if (only_ended_died(mesh, failure)) return;
  const Incident& incident = failure.incident;
  const OnFailure policy = decide(mesh, incident);
  if (policy == OnFailure::kEscalate) throw Error(incident.error());
  std::size_t attempt =
      count(mesh, {.process_id_text = incident.process(), .cause = incident.summary()});
  const std::set<std::uint32_t> affected = affected_ranks(mesh, failure, policy);
  Lacking lacking{affected, affected};
  std::vector<ActorAddress> replaced;
  for (const std::uint32_t rank : affected) replaced.push_back(*mesh.actors.addresses[rank]);
  for (const ActorAddress& actor : replaced) actions_.restart_begins(actor);
  actions_.end_children(replaced);
  const TimePoint began = SteadyClock().now();
  bool reported = false;
  Nanoseconds next = kFirstPause;
  while (true) {
    const auto problem = try_to_restart(mesh, lacking, incident, attempt);
    if (!problem) break;
    if (is_permanent(problem->code())) throw *problem;
    // A lack of devices or of a head counts no death.
    if (problem->code() != ErrorCode::kResourceExhausted &&
        problem->code() != ErrorCode::kUnavailable)
      attempt = count(mesh, {.cause = problem->message()});
    if (!reported && SteadyClock().now() - began > kReportWaitAfter) {
      reported = true;
      actions_.report("restart waits",
                      fmt::format("{} waits for its restart: {}", mesh.name, problem->message()));
    }
    if (!pause(mesh, next))
      throw_error(ErrorCode::kCancelled, "{} was stopped while it was restarted", mesh.name);
    next = std::min(2 * next, kLongestPause);
  }
  actions_.report("restarted",
                  fmt::format("{}; restarted {} (restart {} of {})", incident.summary(), mesh.name,
                              attempt, mesh.budget.max_restarts()));
}

std::optional<Error> MeshSupervisor::try_to_restart(Mesh& mesh, Lacking& lacking,
                                                    const Incident& incident, std::size_t attempt) {
  try {
    SupervisorActions::Renewed renewed =
        actions_.renew(mesh.key, mesh.actors.shape, mesh.options, lacking.process);
    {
      const std::lock_guard lock(mutex_);
      mesh.key = renewed.key;
    }
    for (std::uint32_t rank = 0; rank < renewed.processes.size(); ++rank) {
      const ActorAddress& actor = *mesh.actors.addresses[rank];
      if (renewed.has_lost_all) lacking.actor.insert(rank);
      if (!actions_.has_ended(actor)) continue;
      lacking.actor.erase(rank);
      const ProcessId id = renewed.processes[rank].id;
      if (id != actor.process.id && id != ProcessId()) mesh.idle.insert(id);
      renewed.processes[rank] = actor.process;  // spawns none
      renewed.missing.erase(rank);
    }
    if (!renewed.missing.empty()) {
      // The others have their new processes.
      lacking.process = std::move(renewed.missing);
      return renewed.problem;
    }
    lacking.process.clear();
    const auto before = mesh.actors.addresses;
    std::vector<ActorAddress> replaced;
    for (std::uint32_t rank = 0; rank < before.size(); ++rank)
      if (before[rank]->process.id != renewed.processes[rank].id || lacking.actor.contains(rank))
        replaced.push_back(*before[rank]);
    actions_.end_children(replaced);
    const RestartInfo info{mesh.key.epoch, static_cast<std::uint32_t>(attempt), incident.summary()};
    try {
      mesh.actors = actions_.respawn(mesh.actors, renewed.processes, info, lacking.actor);
    } catch (const Error& error) {
      // A constructor that throws counts as a death, whatever it throws.
      return Error(ErrorCode::kInternal, error.message());
    }
    for (std::size_t rank = 0; rank < before.size(); ++rank)
      actions_.restart_ends(*before[rank], *mesh.actors.addresses[rank]);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

bool MeshSupervisor::is_ending(const Mesh& mesh) const {
  const std::lock_guard lock(mutex_);
  return mesh.ending;
}

bool MeshSupervisor::pause(Mesh& mesh, Nanoseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [&] { return mesh.ending; });
}

void MeshSupervisor::give_up_all(const Error& why) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, mesh] : meshes_) {
    mesh->ending = true;
    mesh->ending_why = why;
    // The thread ends its calls itself.
    if (mesh->busy || mesh->given_up) continue;
    for (const auto& actor : mesh->actors.addresses) actions_.end_supervision(*actor, why);
  }
  changed_.notify_all();
}

void MeshSupervisor::end(const MeshKey& spawned) {
  std::shared_ptr<Mesh> mesh;
  Thread thread;
  {
    std::unique_lock lock(mutex_);
    const auto found = meshes_.find(spawned);
    if (found == meshes_.end()) return;
    mesh = found->second;
    mesh->ending = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !mesh->busy; });
    // The owner and an operator may both end the mesh.
    thread = std::exchange(mesh->thread, Thread());
  }
  if (thread.joinable()) thread.join();
  const Error stopped(ErrorCode::kNotFound, mesh->name + " was stopped by its owner");
  if (!mesh->given_up)
    for (const auto& actor : mesh->actors.addresses) actions_.end_supervision(*actor, stopped);
}

std::optional<MeshKey> MeshSupervisor::present_key(const MeshKey& spawned) const {
  const std::lock_guard lock(mutex_);
  const auto found = meshes_.find(spawned);
  return found == meshes_.end() ? std::nullopt : std::optional(found->second->key);
}

void MeshSupervisor::forget(const MeshKey& spawned) {
  const std::lock_guard lock(mutex_);
  meshes_.erase(spawned);
}

}  // namespace weft::actors
