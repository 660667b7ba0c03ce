#include "actors/head/mesh_epochs.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "core/base/name.h"

namespace weft::actors {
namespace {

constexpr auto kReleaseTimeout = std::chrono::seconds(5);

}  // namespace

void MeshEpochs::check_request(const MeshRequest& request, ProcessId owner) const {
  if (!owners_.registration(owner))
    throw_error(ErrorCode::kFailedPrecondition,
                "only a program that is registered with the head may start a mesh; connect it with "
                "actors::Cluster");
  check_name("the name of a mesh", request.mesh);
  if (request.mesh == kSharedProcessName)
    throw_error(ErrorCode::kInvalidArgument,
                "actors cannot be named '{}', which names the processes that actors share; take "
                "another name",
                kSharedProcessName);
  request.shape.check();
  for (const MeshAxis& axis : request.shape.axes())
    check_name("the name of an axis of mesh " + request.mesh, axis.name);
  (void)amounts_of(fmt::format("mesh '{}'", request.mesh), request.needs);
  if (request.needs.devices > 1)
    throw_error(ErrorCode::kInvalidArgument,
                "mesh '{}' needs {} devices for each rank, and a rank uses one; spawn more ranks",
                request.mesh, request.needs.devices);
}

std::vector<HostDevice> MeshEpochs::find_places(const MeshRequest& request) const {
  try {
    return resources_.find_places(request);
  } catch (const Error& error) {
    // Devices may become free by themselves: something is away or ending.
    const bool passes = hosts_.any_away() || owners_.any_away() || meshes_.any_releasing();
    // Owners that name places choose others themselves.
    const bool can_wait =
        passes && request.places.empty() && error.code() != ErrorCode::kInvalidArgument &&
        error.code() != ErrorCode::kFailedPrecondition && resources_.could_fit(request);
    throw Error(can_wait ? ErrorCode::kUnavailable : error.code(),
                error.message() + hosts_.removed_hosts_note(request));
  }
}

std::optional<Error> MeshEpochs::start_failure(const MeshKey& key,
                                               std::uint64_t registration) const {
  const MeshTable::Mesh* const mesh = std::as_const(meshes_).find(key);
  if (mesh == nullptr || mesh->releasing)
    return Error(
        ErrorCode::kCancelled,
        fmt::format("the start of mesh {} was cancelled: its owner released it", key.name));
  if (mesh->failed)
    return Error(ErrorCode::kPeerDied,
                 fmt::format("a host of mesh {} died while the mesh started", key.name));
  if (owners_.registration(mesh->owner) != registration)
    return Error(ErrorCode::kCancelled,
                 fmt::format("mesh {}: the driver that requested it disconnected", key.name));
  return std::nullopt;
}

task<Error> MeshEpochs::undo_start(MeshKey key, Error failure) {
  MeshTable::Mesh* const mesh = meshes_.find(key);
  if (mesh == nullptr) co_return failure;
  if (mesh->incident) failure = mesh->incident->error();
  releases_.begin(key, *mesh);
  // Devices of a silent host stay taken.
  const Wakeup released = releases_.released(key);
  co_await released.wait_for(kReleaseTimeout);
  co_return failure;
}

task<std::vector<DeviceProcess>> MeshEpochs::start_all(MeshKey key) {
  const MeshTable::Mesh& mesh = *meshes_.find(key);
  std::vector<std::uint32_t> ranks(mesh.places.size());
  std::iota(ranks.begin(), ranks.end(), 0u);
  if (uses_shared_processes(mesh.request)) {
    auto providing = shared_.provide(key, ranks);
    const std::optional<Error> problem = co_await providing;
    if (problem) throw Error(*problem);
    const MeshTable::Mesh* const now = meshes_.find(key);
    co_return now == nullptr ? std::vector<DeviceProcess>() : now->processes;
  }
  std::vector<DeviceProcess> processes(ranks.size());
  auto launching = launcher_.launch(key, mesh, ranks);
  const std::vector<DeviceProcess> started = co_await launching;
  for (const DeviceProcess& process : started) processes.at(process.rank) = process;
  co_return processes;
}

task<MeshProcesses> MeshEpochs::spawn(ProcessId owner, MeshRequest request) {
  check_request(request, owner);
  meshes_.check_name_is_free(owner, request.mesh);
  reservations_.prepare(request, owner);
  std::vector<HostDevice> places = find_places(request);
  const std::uint64_t registration = *owners_.registration(owner);
  const MeshKey key{request.mesh, store_.next_mesh_epoch(request.mesh)};
  for (std::uint32_t rank = 0; rank < places.size(); ++rank)
    resources_.assign(key, rank, places[rank], request);
  MeshTable::Mesh& mesh = meshes_.add(key);
  mesh.request = request;
  mesh.owner = owner;
  mesh.places = std::move(places);
  meshes_.save(key, mesh);
  // Before any process starts under this key. A mesh in shared processes starts none.
  if (!uses_shared_processes(request)) store_.sync_to_disk();

  MeshProcesses result{key,
                       {},
                       request.needs.devices > 0 ? ActorProcess::kOwn : request.process,
                       request.parent_mesh};
  std::optional<Error> failure;
  try {
    auto starting = start_all(key);
    result.processes = co_await starting;
  } catch (...) {
    failure = current_error();
  }
  // The owner may have left or a host may have died meanwhile: then the mesh is released or failed.
  MeshTable::Mesh* const now = meshes_.find(key);
  if (failure && now != nullptr) now->failed = true;
  if (!failure) failure = start_failure(key, registration);
  if (failure) {
    auto undoing = undo_start(key, *failure);
    const Error cause = co_await undoing;
    throw Error(cause);
  }
  now->processes = result.processes;
  meshes_.save(key, *now);
  meshes_.record_devices(key, *now);
  store_.sync_to_disk();
  log_.record(fmt::format("mesh {} (epoch {}, {}) is running for {}", key.name, key.epoch,
                          to_string(request.shape), owners_.name_of(owner)));
  co_return result;
}

}  // namespace weft::actors
