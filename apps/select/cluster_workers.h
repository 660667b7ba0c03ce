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

#include "actors/launch/cluster.h"
#include "actors/launch/cluster_config.h"
#include "actors/supervision/restart_limit.h"
#include "apps/selection/worker_group.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "mesh/exchange/rank_connector.h"

namespace weft::apps {

struct ClusterWorkersOptions {
  std::string mesh;                ///< Their name, as `weft status` shows it.
  std::vector<std::string> hosts;  ///< Spares apart.
  std::uint32_t workers = 1;
  actors::RecoveryConfig recovery = {};
  /// This driver was started again: the workers of the one before it go on, if they are there.
  bool takes_over = false;
  /// Told of each death that has been mended.
  std::function<void(const std::string&)> recovered = {};
};

/// A worker for each device of a cluster's hosts. A driver's; one thread.
template <typename Worker>
class ClusterWorkers final : public WorkerGroup<Worker> {
 public:
  /// Starts and connects them.
  ClusterWorkers(actors::Cluster& cluster, ClusterWorkersOptions options);

  actors::MeshRef<Worker> all() override { return mesh_->ref(); }
  void recover(const Error& why) override;

 private:
  /// A worker answers an urgent call although it reads or computes.
  static constexpr Nanoseconds kAnswersWithin = std::chrono::seconds(10);
  static constexpr Nanoseconds kCauseWithin = std::chrono::seconds(3);
  /// A host that somebody starts again joins again.
  static constexpr Nanoseconds kHostsComeBackWithin = std::chrono::seconds(20);

  void connect();
  /// Ends what the others wait for; the ranks that do not answer.
  std::set<std::uint32_t> cancel(const std::string& why);
  /// Until none is missing.
  void replace_the_dead(const std::string& cause);

  actors::Cluster& cluster_;
  const ClusterWorkersOptions options_;
  actors::OnHosts where_;
  SteadyClock clock_;
  actors::RestartLimit restarts_;
  actors::MeshKey key_;
  std::optional<actors::ActorMesh<Worker>> mesh_;
  std::uint64_t epoch_ = 0;
};

template <typename Worker>
ClusterWorkers<Worker>::ClusterWorkers(actors::Cluster& cluster, ClusterWorkersOptions options)
    : cluster_(cluster),
      options_(std::move(options)),
      where_{options_.hosts},
      restarts_(options_.recovery.restarts, options_.recovery.within) {
  if (options_.recovery.restarts > 0) cluster_.survive_deaths();
  const MeshShape shape({{"worker", static_cast<std::int64_t>(options_.workers)}});
  if (options_.takes_over) {
    auto left = cluster_.take_over<Worker>(key_, options_.mesh, shape);
    if (left) mesh_.emplace(std::move(*left));
  }
  const bool inherited = mesh_.has_value();
  if (!inherited) mesh_.emplace(cluster_.spawn<Worker>(key_, options_.mesh, shape, where_));
  const std::vector<std::string>& spares = options_.recovery.spares;
  where_.hosts.insert(where_.hosts.end(), spares.begin(), spares.end());
  if (inherited) replace_the_dead("the driver was started again");
  connect();
}

template <typename Worker>
void ClusterWorkers<Worker>::connect() {
  const std::vector<actors::HostDevice> places = cluster_.places_of(key_);
  std::set<std::string> hosts;
  for (const actors::HostDevice& place : places) hosts.insert(place.host);
  mesh::RankConnector ranks(++epoch_, cluster_.data_interfaces(hosts));
  ranks.add<&Worker::open, &Worker::connect>(mesh_->ref(), places);
  ranks.connect();
}

template <typename Worker>
std::set<std::uint32_t> ClusterWorkers<Worker>::cancel(const std::string& why) {
  const auto answers =
      mesh_->ref().within(kAnswersWithin).template call_collect<&Worker::cancel>(why).get();
  std::set<std::uint32_t> silent;
  for (std::uint32_t rank = 0; rank < answers.size(); ++rank)
    if (!answers[rank].ok()) silent.insert(rank);
  return silent;
}

template <typename Worker>
void ClusterWorkers<Worker>::replace_the_dead(const std::string& cause) {
  const TimePoint began = clock_.now();
  while (true) {
    const std::set<std::uint32_t> broken = cancel(cause);
    const auto renewed = cluster_.renew(*mesh_, key_, where_, broken);
    if (renewed.missing.empty()) return;
    if (!options_.recovery.waits && clock_.now() - began > kHostsComeBackWithin)
      throw_error(ErrorCode::kResourceExhausted,
                  "too few devices are left, and recovery.if_too_few is fail: {}", renewed.problem);
    cluster_.wait_for_change(std::chrono::milliseconds(50));
  }
}

template <typename Worker>
void ClusterWorkers<Worker>::recover(const Error& why) {
  const bool is_death =
      why.code() == ErrorCode::kPeerDied || why.code() == ErrorCode::kUnavailable ||
      why.code() == ErrorCode::kDeadlineExceeded || why.code() == ErrorCode::kStaleEpoch;
  if (!is_death || options_.recovery.restarts == 0) throw Error(why);
  // It may be seen before its cause is told; an error of a file is no death.
  if (!cluster_.failure(kCauseWithin)) throw Error(why);
  std::string cause = cluster_.what_died(why);
  const auto number = restarts_.admit(clock_.now());
  if (!number)
    throw_error(ErrorCode::kFailedPrecondition,
                "{}\nThat is more than recovery.restarts allows, {} within {}", why.message(),
                restarts_.most(), format_seconds(in_seconds(restarts_.within())));
  cluster_.forgive();
  replace_the_dead(cause);
  // A symptom may have come long before its cause.
  cause = cluster_.what_died(Error(why.code(), cause));
  cluster_.forgive();
  connect();
  if (options_.recovered)
    options_.recovered(
        fmt::format("{}; replaced, restart {} of {}", cause, *number, restarts_.most()));
}

}  // namespace weft::apps
