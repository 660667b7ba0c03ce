#include "apps/select/cluster_workers.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/units.h"
#include "mesh/exchange/rank_connector.h"

namespace weft::apps {
namespace {

/// A worker answers an urgent call although it reads or computes.
constexpr Nanoseconds kAnswersWithin = std::chrono::seconds(10);
constexpr Nanoseconds kCauseWithin = std::chrono::seconds(3);
/// A host that somebody starts again joins again.
constexpr Nanoseconds kHostsComeBackWithin = std::chrono::seconds(20);

}  // namespace

ClusterWorkers::ClusterWorkers(actors::Cluster& cluster, Options options)
    : cluster_(cluster),
      options_(std::move(options)),
      where_{options_.hosts},
      restarts_(options_.recovery.restarts, options_.recovery.within) {
  if (options_.recovery.restarts > 0) cluster_.survive_deaths();
  const MeshShape shape({{"worker", static_cast<std::int64_t>(options_.workers)}});
  const std::vector<std::string>& spares = options_.recovery.spares;
  if (options_.takes_over) {
    auto left = cluster_.take_over<SelectionWorker>(key_, "select", shape);
    if (left) mesh_.emplace(std::move(*left));
  }
  const bool inherited = mesh_.has_value();
  if (!inherited) mesh_.emplace(cluster_.spawn<SelectionWorker>(key_, "select", shape, where_));
  where_.hosts.insert(where_.hosts.end(), spares.begin(), spares.end());
  if (inherited) replace_the_dead("the driver was started again");
  connect();
}

void ClusterWorkers::connect() {
  mesh::RankConnector ranks(++epoch_);
  ranks.add<&SelectionWorker::open, &SelectionWorker::connect>(mesh_->ref(),
                                                               cluster_.places_of(key_));
  ranks.connect();
}

std::set<std::uint32_t> ClusterWorkers::cancel(const std::string& why) {
  const auto answers =
      mesh_->ref().within(kAnswersWithin).call_collect<&SelectionWorker::cancel>(why).get();
  std::set<std::uint32_t> silent;
  for (std::uint32_t rank = 0; rank < answers.size(); ++rank)
    if (!answers[rank].ok()) silent.insert(rank);
  return silent;
}

void ClusterWorkers::replace_the_dead(const std::string& cause) {
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

void ClusterWorkers::recover(const Error& why) {
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
