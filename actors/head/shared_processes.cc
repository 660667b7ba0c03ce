#include "actors/head/shared_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace weft::actors {
namespace {

/// Time for the end of a process that has failed. A stopped one gets SIGKILL.
constexpr Nanoseconds kFormerEndsWithin = std::chrono::seconds(5);

}  // namespace

MeshKey SharedProcesses::find_or_begin(const MeshTable::Mesh& mesh, const std::string& host) {
  if (const auto found = meshes_.find_shared(mesh.owner, host, mesh.request)) return *found;
  MeshKey key{kSharedProcessName, store_.next_mesh_epoch(kSharedProcessName)};
  MeshRequest request = mesh.request;
  request.mesh = kSharedProcessName;
  request.shape = MeshShape();
  request.hosts = {host};
  request.places = {};
  request.needs = {};
  request.process = ActorProcess::kOwn;
  request.reservation = {};
  const ProcessId owner = mesh.owner;
  MeshTable::Mesh& shared = meshes_.add(key);
  shared.request = std::move(request);
  shared.owner = owner;
  shared.places = {{host, kNoDevice}};
  shared.is_shared_process = true;
  meshes_.save(key, shared);
  starts_.emplace(key, std::make_shared<Start>());
  waiting_.push_back(key);
  if (waiting_.size() == 1) start_later_(key);
  return key;
}

std::optional<Error> SharedProcesses::start_failure(const MeshKey& key) const {
  const MeshTable::Mesh* const mesh = std::as_const(meshes_).find(key);
  if (mesh == nullptr || mesh->releasing || !owners_.registration(mesh->owner))
    return Error(ErrorCode::kCancelled, "the program that owns the actors has ended");
  if (mesh->failed)
    return Error(ErrorCode::kPeerDied,
                 fmt::format("the shared process of {} on host {} died while actors were placed in "
                             "it",
                             owners_.name_of(mesh->owner), mesh->places.front().host));
  return std::nullopt;
}

task<void> SharedProcesses::end_former(MeshKey key) {
  const MeshTable::Mesh& mesh = *meshes_.find(key);
  const std::string host = mesh.places.front().host;
  for (const MeshKey& former : meshes_.find_failed_shared(mesh.owner, host)) {
    MeshTable::Mesh* const failed = meshes_.find(former);
    if (former == key || failed == nullptr) continue;
    releases_.begin(former, *failed);
    const Wakeup released = releases_.released(former);
    const bool has_ended = co_await released.wait_for(kFormerEndsWithin);
    if (!has_ended)
      throw_error(ErrorCode::kUnavailable,
                  "host {} has not confirmed the end of the former shared process", host);
  }
}

task<std::vector<DeviceProcess>> SharedProcesses::launch(MeshKey key) {
  if (const auto failure = start_failure(key)) throw Error(*failure);
  co_await end_former(key);
  if (const auto failure = start_failure(key)) throw Error(*failure);
  store_.sync_to_disk();
  const std::vector<std::uint32_t> only{0};
  auto launching = launcher_.launch(key, *meshes_.find(key), only);
  std::vector<DeviceProcess> started = co_await launching;
  if (const auto failure = start_failure(key)) throw Error(*failure);
  co_return started;
}

void SharedProcesses::resume() {
  if (!waiting_.empty()) start_later_(waiting_.front());
}

task<void> SharedProcesses::start(MeshKey key) {
  const auto under_way = starts_.find(key);
  if (under_way == starts_.end() || under_way->second->is_launching) co_return;
  under_way->second->is_launching = true;
  waiting_.erase(std::ranges::find(waiting_, key));
  resume();
  std::vector<DeviceProcess> started;
  std::optional<Error> failure;
  try {
    auto launching = launch(key);
    started = co_await launching;
  } catch (...) {
    failure = current_error();
  }
  MeshTable::Mesh* const mesh = meshes_.find(key);
  if (mesh != nullptr && failure) {
    mesh->failed = true;
    releases_.begin(key, *mesh);
  } else if (mesh != nullptr) {
    mesh->processes = std::move(started);
    meshes_.save(key, *mesh);
    store_.sync_to_disk();
    log_.record(fmt::format("a shared process of {} runs on host {} (pid {})",
                            owners_.name_of(mesh->owner), mesh->places.front().host,
                            mesh->processes.front().pid));
  }
  finish_start(key, failure);
}

void SharedProcesses::finish_start(const MeshKey& key, const std::optional<Error>& error) {
  const auto node = starts_.extract(key);
  Start& start = *node.mapped();
  start.done = true;
  start.error = error;
  for (const Wakeup& waiter : start.waiters) waiter.notify();
}

task<std::optional<Error>> SharedProcesses::wait_for(std::shared_ptr<Start> start) {
  while (!start->done) {
    const Wakeup done = start->waiters.emplace_back(context_.make_wakeup());
    co_await done.wait();
  }
  co_return start->error;
}

task<std::optional<Error>> SharedProcesses::provide(MeshKey key, std::vector<std::uint32_t> ranks) {
  std::map<std::string, MeshKey> shared;  // by host
  std::vector<std::shared_ptr<Start>> starts;
  {
    const MeshTable::Mesh& mesh = *meshes_.find(key);
    for (const std::uint32_t rank : ranks) {
      const std::string& host = mesh.places[rank].host;
      if (shared.contains(host)) continue;
      const MeshKey process = find_or_begin(mesh, host);
      shared.emplace(host, process);
      if (const auto start = starts_.find(process); start != starts_.end())
        starts.push_back(start->second);
    }
  }
  std::optional<Error> problem;
  for (const std::shared_ptr<Start>& start : starts) {
    auto waiting = wait_for(start);
    const std::optional<Error> error = co_await waiting;
    if (error && !problem) problem = error;
  }
  std::map<std::string, DeviceProcess> processes;  // by host
  // One of them may have died while the others started.
  for (const auto& [host, process] : shared) {
    const auto failure = start_failure(process);
    if (!failure) processes.emplace(host, meshes_.find(process)->processes.front());
    else if (!problem) problem = failure;
  }
  MeshTable::Mesh* const mesh = meshes_.find(key);
  if (mesh == nullptr) co_return problem;
  mesh->processes.resize(mesh->places.size());
  for (const std::uint32_t rank : ranks) {
    const auto found = processes.find(mesh->places[rank].host);
    DeviceProcess& process = mesh->processes[rank];
    process = found == processes.end() ? DeviceProcess() : found->second;
    process.rank = rank;
    process.place = mesh->places[rank];
  }
  co_return problem;
}

}  // namespace weft::actors
