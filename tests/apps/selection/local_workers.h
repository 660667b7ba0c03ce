#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/system/system.h"
#include "apps/selection/worker_group.h"
#include "core/log/log.h"
#include "mesh/exchange/data_plane_connector.h"
#include "tests/support/cluster_token.h"

namespace weft::test {

inline actors::SystemOptions options_of(const std::string& name) {
  actors::SystemOptions options;
  options.name = name;
  options.token = cluster_token();
  options.log = Log::standard_error(LogLevel::kError);
  return options;
}

/// Workers in this process. Each has a System of its own, as if it were a process.
template <typename Worker>
class LocalWorkers final : public apps::WorkerGroup<Worker> {
 public:
  explicit LocalWorkers(std::size_t workers) : driver_(options_of("driver")), systems_(workers) {
    for (std::size_t rank = 0; rank < workers; ++rank) start(rank);
    mesh_.emplace(driver_.spawn_mesh<Worker>("workers", shape(), processes_));
    connect();
  }
  ~LocalWorkers() override { mesh_.reset(); }

  actors::MeshRef<Worker> all() override {
    if (before_call) before_call();
    return mesh_->ref();
  }
  void recover(const Error& why) override {
    if (dead_.empty()) throw Error(why);
    for (std::size_t rank = 0; rank < systems_.size(); ++rank)
      if (!dead_.contains(rank)) mesh_->rank(rank).template call<&Worker::cancel>("dead").get();
    for (const std::size_t rank : std::exchange(dead_, {})) start(rank);
    mesh_->renew(driver_.respawn_mesh<Worker>(mesh_->ref(), processes_));
    connect();
  }
  /// Ends a worker as if its process had been killed.
  void kill(std::size_t rank) {
    systems_[rank].reset();
    dead_.insert(rank);
  }

  std::function<void()> before_call;

 private:
  MeshShape shape() const {
    return MeshShape({{"worker", static_cast<std::int64_t>(systems_.size())}});
  }
  void start(std::size_t rank) {
    systems_[rank] = std::make_unique<actors::System>(options_of("worker"));
    systems_[rank]->provide<Worker>();
    processes_.resize(systems_.size());
    processes_[rank] = driver_.connect(systems_[rank]->listen({"127.0.0.1", 0}));
  }
  void connect() {
    mesh::DataPlaneConnector ranks(++epoch_, {{{"even", "lo"}, {"odd", "lo"}}, "lo"});
    std::vector<actors::HostDevice> places(systems_.size());
    for (std::size_t rank = 0; rank < places.size(); ++rank)
      places[rank].host = rank % 2 == 0 ? "even" : "odd";
    ranks.add<&Worker::open, &Worker::connect>(mesh_->ref(), places);
    ranks.connect();
  }

  actors::System driver_;
  std::vector<std::unique_ptr<actors::System>> systems_;
  std::vector<actors::ProcessRef> processes_;
  std::optional<actors::ActorMesh<Worker>> mesh_;
  std::set<std::size_t> dead_;
  std::uint64_t epoch_ = 0;
};

}  // namespace weft::test
