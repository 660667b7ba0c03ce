// Deaths, as the owner of meshes learns of them and survives them.

#include <algorithm>
#include <utility>

#include "actors/head/head.h"
#include "actors/launch/cluster.h"
#include "actors/launch/internal/time_limits.h"

namespace weft::actors {
namespace {

/// Time for an incident (agent -> head -> owner) to arrive after the lost connection that it
/// explains.
constexpr auto kIncidentWithin = std::chrono::milliseconds(500);
/// Time for the head and the agents to check their processes.
constexpr auto kLooksWithin = std::chrono::seconds(2);
constexpr auto kLookForChangeEvery = std::chrono::milliseconds(20);

}  // namespace

void Cluster::survive_deaths() {
  const std::lock_guard lock(mutex_);
  survives_ = true;
}

void Cluster::clear_failures() {
  const std::lock_guard lock(mutex_);
  if (lost_) throw Error(*first_failure_);
  first_failure_.reset();
  first_incident_.reset();
  unexplained_loss_ = false;
}

std::string Cluster::root_cause(const Error& error) const {
  const std::lock_guard lock(mutex_);
  return first_incident_ ? first_incident_->summary() : error.message();
}

std::optional<Incident> Cluster::incident() const {
  const std::lock_guard lock(mutex_);
  return first_incident_;
}

bool Cluster::has_dead_process() {
  std::vector<MeshKey> keys;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, members] : meshes_) keys.push_back(key);
  }
  return head_.reach({}).head.within(kLooksWithin).call<&Head::has_dead_process>(keys).get();
}

void Cluster::wait_for_change(std::uint64_t seen, Nanoseconds within, const std::stop_token& stop) {
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + within;
  std::optional<Future<std::uint64_t>> change;
  try {
    change = head_.reach({})
                 .head.within(within + kLooksWithin)
                 .call<&Head::wait_for_change>(seen, std::int64_t{within.count()});
  } catch (const Error&) {
    // The head is away: waits for failures and time alone.
  }
  std::unique_lock lock(mutex_);
  const std::size_t told = failed_.size();
  const auto is_told = [&] { return lost_ || failed_.size() != told; };
  while (clock.now() < give_up && !stop.stop_requested()) {
    if (change && change->ready()) return;
    if (changed_.wait_for(lock, kLookForChangeEvery, is_told)) return;
  }
}

std::optional<Error> Cluster::failure(Nanoseconds within) const {
  std::unique_lock lock(mutex_);
  const bool wait_longer = unexplained_loss_ && within > Nanoseconds::zero();
  changed_.wait_for(
      lock, wait_longer ? std::max(within, Nanoseconds(internal::kIncidentWithinLease)) : within,
      [&] { return first_failure_.has_value(); });
  return first_failure_;
}

void Cluster::rethrow(const MeshKey& key, const Error& error) {
  std::optional<Error> better;
  if (error.code() == ErrorCode::kPeerDied || error.code() == ErrorCode::kUnavailable) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kIncidentWithin, [&] { return failed_.contains(key) || lost_; });
    if (const auto it = failed_.find(key); it != failed_.end()) better = it->second;
  }
  release(key);
  throw better ? *better : error;
}

void Cluster::mesh_failed(const MeshFailure& failure) {
  const Error error = failure.incident.error();
  const MeshKey key{failure.incident.mesh, failure.incident.epoch};
  bool survives = false, is_new = false;
  {
    const std::lock_guard lock(mutex_);
    survives = survives_;
  }
  // Done before the owner learns of the failure and makes other calls.
  if (survives) fail_dead(error, failure);
  {
    std::lock_guard lock(mutex_);
    // A head that returns repeats its reports, and another process of the mesh may have died.
    is_new = failed_.emplace(key, error).second;
    if (is_new) {
      // A mesh that was renewed meanwhile is recovered.
      if (!first_failure_ && (!survives || meshes_.contains(key))) {
        first_failure_ = error;
        first_incident_ = failure.incident;
      }
      unexplained_loss_ = false;
      changed_.notify_all();
    }
  }
  if (is_new && options_.on_event) options_.on_event(RunEvent::of(failure.incident));
  if (survives || !is_new) return;
  fail_meshes(
      error, options_.failure_scope == ClusterOptions::FailureScope::kOneMesh ? &failure : nullptr);
}

void Cluster::lost(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (lost_) return;
    lost_ = true;
    if (!first_failure_) first_failure_ = error;
    changed_.notify_all();
  }
  fail_meshes(error, nullptr);
  head_.give_up(error);
  system_.declare_dead(head_.process().id, error);
  if (options_.on_lost) options_.on_lost(error);
}

void Cluster::fail_dead(const Error& error, const MeshFailure& failure) {
  const std::set<ProcessId> dead(failure.dead.begin(), failure.dead.end());
  for (const ProcessId process : dead) system_.declare_dead(process, error);
  std::vector<ProcessId> others;
  {
    const std::lock_guard lock(mutex_);
    if (!meshes_.contains({failure.incident.mesh, failure.incident.epoch})) return;
    for (const auto& [key, members] : meshes_)
      for (const DeviceProcess& member : members)
        if (!dead.contains(member.process.id)) others.push_back(member.process.id);
  }
  for (const ProcessId process : others) system_.fail_calls(process, error);
}

void Cluster::fail_meshes(const Error& error, const MeshFailure* only) {
  std::vector<ProcessId> processes;
  if (only != nullptr) {
    processes = only->mesh_processes;
  } else {
    std::lock_guard lock(mutex_);
    for (const auto& [key, members] : meshes_)
      for (const DeviceProcess& member : members) processes.push_back(member.process.id);
  }
  for (const ProcessId process : processes) system_.declare_dead(process, error);
}

}  // namespace weft::actors
