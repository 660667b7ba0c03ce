#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/cluster.h"
#include "actors/recovery/run_recovery.h"
#include "apps/selection/worker_group.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "mesh/exchange/data_plane_connector.h"

namespace weft::apps {

struct ClusterWorkersOptions {
  std::string mesh;                ///< Name of the mesh in `weft status`.
  std::vector<std::string> hosts;  ///< Hosts without the spare ones.
  std::uint32_t workers = 1;
  /// True after a driver restart: adopts the previous driver's workers if they still run.
  bool adopt_existing = false;
  /// Called with a text after each recovery. May be empty.
  std::function<void(const std::string&)> recovered = {};
};

/// Mesh with a worker on each device of a cluster's hosts. For the driver; not thread-safe.
template <typename Worker>
class ClusterWorkers final : public WorkerGroup<Worker>, private actors::RunMeshes {
 public:
  /// Starts and connects the workers. `recovery` is the run's and must outlive this object.
  ClusterWorkers(actors::Cluster& cluster, actors::RunRecovery& recovery,
                 ClusterWorkersOptions options);

  actors::MeshRef<Worker> all() override { return mesh_->ref(); }
  void recover(const Error& why) override;
  void on_phase_done() override { recovery_.step_done(); }

 private:
  /// Deadline of cancel(), which workers answer even while they read or compute.
  static constexpr Nanoseconds kAnswersWithin = std::chrono::seconds(10);

  // RunMeshes:
  std::vector<Wanted> wanted() const override { return {{options_.mesh, shape_, options_.hosts}}; }
  std::vector<actors::MeshKey> keys() const override {
    return mesh_ ? std::vector{key_} : std::vector<actors::MeshKey>();
  }
  std::vector<std::set<std::uint32_t>> find_broken() override;
  void start_next(const actors::MeshPlacement& where) override {
    mesh_.emplace(
        cluster_.spawn<Worker>(key_, options_.mesh, shape_,
                               actors::SpawnOptions{.place = where, .needs = {.devices = 1}}));
  }
  actors::Cluster::RenewResult renew(std::size_t /*mesh*/, const actors::MeshPlacement& where,
                                     const std::set<std::uint32_t>& broken) override {
    return cluster_.renew(*mesh_, key_, where, broken);
  }
  void drop_from(std::size_t /*mesh*/) override { mesh_.reset(); }
  void connect();

  actors::Cluster& cluster_;
  actors::RunRecovery& recovery_;
  const ClusterWorkersOptions options_;
  const MeshShape shape_;
  actors::MeshKey key_;
  std::optional<actors::ActorMesh<Worker>> mesh_;
  std::uint64_t epoch_ = 0;
  std::string cause_ = "the driver was started again";  ///< Cause of the recovery in progress.
};

template <typename Worker>
ClusterWorkers<Worker>::ClusterWorkers(actors::Cluster& cluster, actors::RunRecovery& recovery,
                                       ClusterWorkersOptions options)
    : cluster_(cluster),
      recovery_(recovery),
      options_(std::move(options)),
      shape_({{"worker", static_cast<std::int64_t>(options_.workers)}}) {
  std::optional<Error> error;
  try {
    if (options_.adopt_existing) {
      auto left = cluster_.adopt_mesh<Worker>(key_, options_.mesh, shape_);
      if (left) mesh_.emplace(std::move(*left));
    }
    if (mesh_) recovery_.adopt(*this);
    else recovery_.start(*this);
    connect();
  } catch (const Error& thrown) {
    error = thrown;
  }
  if (error) recover(*error);
}

template <typename Worker>
void ClusterWorkers<Worker>::connect() {
  const std::vector<actors::HostDevice> places = cluster_.meshes().places_of(key_);
  std::set<std::string> hosts;
  for (const actors::HostDevice& place : places) hosts.insert(place.host);
  mesh::DataPlaneConnector ranks(++epoch_, cluster_.data_interfaces(hosts));
  ranks.add<&Worker::open, &Worker::connect>(mesh_->ref(), places);
  ranks.connect();
}

/// Cancels exchanges of workers that wait for a dead one. Returns the ranks that do not answer.
template <typename Worker>
std::vector<std::set<std::uint32_t>> ClusterWorkers<Worker>::find_broken() {
  if (!mesh_) return {};
  const auto answers =
      mesh_->ref().within(kAnswersWithin).template call_collect<&Worker::cancel>(cause_).get();
  std::set<std::uint32_t> silent;
  for (std::uint32_t rank = 0; rank < answers.size(); ++rank)
    if (!answers[rank].ok()) silent.insert(rank);
  return {silent};
}

template <typename Worker>
void ClusterWorkers<Worker>::recover(const Error& why) {
  if (!recovery_.recovers_from(why)) throw Error(why);
  cause_ = cluster_.failures().root_cause(why);
  const auto mended = recovery_.recover(why, *this, [this] { connect(); });
  if (options_.recovered)
    options_.recovered(
        fmt::format("{}; replaced, restart {} of {}", mended.cause, mended.restart, mended.most));
}

}  // namespace weft::apps
