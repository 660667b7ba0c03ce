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
  Mesh(const MeshKey& mesh_key, SpawnedActors spawned, const SpawnOptions& spawn_options)
      : name(mesh_key.name),
        options(spawn_options),
        actors(std::move(spawned)),
        budget(spawn_options.restarts.value_or(SpawnOptions::kDefaultRestarts),
               spawn_options.within),
        key(mesh_key) {}

  const std::string name;
  const SpawnOptions options;
  SpawnedActors actors;
  RestartBudget budget;
  bool given_up = false;

  MeshKey key;                       // guarded: read by others, too
  std::deque<MeshFailure> failures;  // guarded: reported and not handled yet
  bool busy = false;                 // guarded: the thread runs
  bool ending = false;               // guarded
  Thread thread;                     // guarded
};

MeshSupervisor::~MeshSupervisor() {
  std::vector<MeshKey> keys;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, mesh] : meshes_) keys.push_back(key);
  }
  for (const MeshKey& key : keys) (void)end(key);
}

void MeshSupervisor::add(const MeshKey& key, SpawnedActors actors, const SpawnOptions& options) {
  auto mesh = std::make_shared<Mesh>(key, std::move(actors), options);
  const std::lock_guard lock(mutex_);
  meshes_.emplace(key, std::move(mesh));
}

bool MeshSupervisor::supervises(const MeshKey& key) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(meshes_, [&](const auto& entry) {
    return entry.second->name == key.name && entry.second->key.epoch >= key.epoch &&
           entry.first.epoch <= key.epoch;
  });
}

bool MeshSupervisor::failed(const MeshFailure& failure) {
  const MeshKey key{failure.incident.mesh, failure.incident.epoch};
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      meshes_, [&](const auto& entry) { return entry.second->name == key.name; });
  if (found == meshes_.end()) return false;
  const std::shared_ptr<Mesh>& mesh = found->second;
  if (mesh->ending) return true;
  mesh->failures.push_back(failure);
  changed_.notify_all();
  if (std::exchange(mesh->busy, true)) return true;
  // The thread of an earlier restart has finished.
  if (mesh->thread.joinable()) mesh->thread.join();
  mesh->thread =
      Thread("restart " + mesh->name, ThreadPriority::kOrdinary, [this, mesh] { run(*mesh); });
  return true;
}

void MeshSupervisor::run(Mesh& mesh) {
  while (true) {
    MeshFailure failure;
    {
      const std::lock_guard lock(mutex_);
      if (mesh.failures.empty() || mesh.ending || mesh.given_up) {
        mesh.busy = false;
        changed_.notify_all();
        return;
      }
      failure = std::move(mesh.failures.front());
      mesh.failures.pop_front();
      // A later epoch has replaced what died.
      if (failure.incident.epoch < mesh.key.epoch) continue;
    }
    try {
      restart(mesh, failure);
    } catch (const Error& error) {
      mesh.given_up = true;
      for (const auto& actor : mesh.actors.addresses) actions_.restart_ends(*actor, error);
      if (!is_ending(mesh)) actions_.give_up(failure.incident, error);
    }
  }
}

OnFailure MeshSupervisor::decide(const Mesh& mesh, const Incident& incident) const {
  OnFailure policy = mesh.options.on_failure;
  if (mesh.options.decide) policy = mesh.options.decide(incident);
  return policy == OnFailure::kUnspecified ? OnFailure::kOneForOne : policy;
}

std::set<std::uint32_t> MeshSupervisor::affected_ranks(const Mesh& mesh, const MeshFailure& failure,
                                                       OnFailure policy) const {
  std::set<std::uint32_t> ranks;
  const auto& addresses = mesh.actors.addresses;
  for (std::uint32_t rank = 0; rank < addresses.size(); ++rank)
    if (std::ranges::find(failure.dead, addresses[rank]->process.id) != failure.dead.end())
      ranks.insert(rank);
  std::uint32_t first = ranks.empty() ? 0 : *ranks.begin();
  if (policy == OnFailure::kOneForAll) first = 0;
  if (policy == OnFailure::kOneForAll || policy == OnFailure::kRestForOne)
    for (std::uint32_t rank = first; rank < addresses.size(); ++rank) ranks.insert(rank);
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
      "{} is not restarted again: {} restarts within {:.0f} s are allowed (restarts, within "
      "of its spawn). Deaths so far:{}",
      mesh.name, mesh.budget.max_restarts(), in_seconds(mesh.budget.window()), all);
}

void MeshSupervisor::restart(Mesh& mesh, const MeshFailure& failure) {
  const Incident& incident = failure.incident;
  const OnFailure policy = decide(mesh, incident);
  if (policy == OnFailure::kEscalate) throw incident.error();
  std::size_t attempt =
      count(mesh, {.process_id_text = incident.process(), .cause = incident.summary()});
  std::set<std::uint32_t> broken = affected_ranks(mesh, failure, policy);
  for (const std::uint32_t rank : broken) actions_.restart_begins(*mesh.actors.addresses[rank]);
  const TimePoint began = SteadyClock().now();
  bool reported = false;
  Nanoseconds next = kFirstPause;
  while (true) {
    const auto problem = try_to_restart(mesh, broken, incident, attempt);
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

std::optional<Error> MeshSupervisor::try_to_restart(Mesh& mesh, std::set<std::uint32_t>& broken,
                                                    const Incident& incident, std::size_t attempt) {
  try {
    SupervisorActions::Renewed renewed =
        actions_.renew(mesh.key, mesh.actors.shape, mesh.options.place, broken);
    {
      const std::lock_guard lock(mutex_);
      mesh.key = renewed.key;
    }
    if (!renewed.missing.empty()) {
      // The others have their new processes.
      broken = std::move(renewed.missing);
      return renewed.problem;
    }
    broken.clear();
    const auto before = mesh.actors.addresses;
    mesh.actors =
        actions_.respawn(mesh.actors, renewed.processes,
                         {mesh.key.epoch, static_cast<std::uint32_t>(attempt), incident.summary()});
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
    // A restart that is under way ends its calls itself.
    if (mesh->busy) continue;
    for (const auto& actor : mesh->actors.addresses) actions_.end_supervision(*actor, why);
  }
  changed_.notify_all();
}

std::optional<MeshKey> MeshSupervisor::end(const MeshKey& spawned) {
  std::shared_ptr<Mesh> mesh;
  {
    std::unique_lock lock(mutex_);
    const auto found = meshes_.find(spawned);
    if (found == meshes_.end()) return std::nullopt;
    mesh = found->second;
    mesh->ending = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !mesh->busy; });
    meshes_.erase(found);
  }
  if (mesh->thread.joinable()) mesh->thread.join();
  const Error stopped(ErrorCode::kNotFound, mesh->name + " was stopped by its owner");
  if (!mesh->given_up)
    for (const auto& actor : mesh->actors.addresses) actions_.end_supervision(*actor, stopped);
  return mesh->key;
}

}  // namespace weft::actors
