#include "actors/recovery/run_recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace weft::actors {
namespace {

/// Time in which a lost host may be started again and join.
constexpr Nanoseconds kHostsComeBackWithin = std::chrono::seconds(20);
/// Wait for devices after which the first report is made.
constexpr Nanoseconds kFirstWaitReport = std::chrono::seconds(2);
constexpr Nanoseconds kWaitReportInterval = std::chrono::seconds(30);
/// Time to the next attempt if no change is reported. A process that has died meanwhile, for
/// example, causes no report of a host.
constexpr Nanoseconds kRetryWithoutChange = std::chrono::seconds(5);
/// Time to the next attempt on a host that lacks memory or processes for a moment.
constexpr Nanoseconds kRetryAfterTransientError = std::chrono::seconds(1);

/// Returns whether an error may mean that living processes do not reach each other.
bool is_connectivity_error(const Error& error) {
  return error.code() == ErrorCode::kPeerDied || error.code() == ErrorCode::kUnavailable ||
         error.code() == ErrorCode::kDeadlineExceeded || error.code() == ErrorCode::kStaleEpoch;
}

/// Reason why a mesh does not get its devices.
enum class Obstacle : std::uint8_t {
  kTransient,  ///< Devices, memory or a host may become available.
  kDeath,      ///< A process has ended before it was ready.
  kPermanent,  ///< Somebody has to repair something.
};
Obstacle obstacle_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCancelled:
    case ErrorCode::kNotFound:
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kStaleEpoch:
    case ErrorCode::kUnavailable: return Obstacle::kTransient;
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kInternal:
    case ErrorCode::kPeerDied: return Obstacle::kDeath;
    default: return Obstacle::kPermanent;
  }
}

}  // namespace

RunRecovery::RunRecovery(Cluster& cluster, RunRecoveryOptions options)
    : cluster_(cluster),
      options_(std::move(options)),
      budget_(options_.config.restarts, options_.config.within, options_.restart_budget_path) {
  if (allowed()) cluster_.failures().survive_deaths();
}

std::vector<std::string> RunRecovery::hosts_of(const std::vector<std::string>& planned) const {
  std::vector<std::string> hosts;
  const auto add = [&](const std::string& host) {
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  };
  for (const std::string& host : planned) {
    const auto other = replacement_of_.find(host);
    add(other == replacement_of_.end() ? host : other->second);
  }
  // Replacements come first, then the planned hosts again.
  for (const std::string& host : planned) add(host);
  return hosts;
}

std::vector<MeshToPlace> RunRecovery::to_place(const RunMeshes& meshes,
                                               std::vector<std::set<std::uint32_t>> broken) const {
  std::vector<MeshToPlace> result;
  const std::vector<MeshKey> keys = meshes.keys();
  for (const RunMeshes::Wanted& wanted : meshes.wanted()) {
    const std::size_t m = result.size();
    MeshToPlace& mesh = result.emplace_back();
    mesh.name = wanted.name;
    mesh.size = wanted.shape.size();
    mesh.hosts = hosts_of(wanted.hosts);
    if (m >= keys.size()) continue;
    mesh.key = keys[m];
    mesh.places = cluster_.meshes().places_of(keys[m]);
    mesh.broken = std::move(broken[m]);
    mesh.broken.merge(cluster_.meshes().missing_ranks(keys[m]));
  }
  return result;
}

std::string RunRecovery::wait_reason(const std::vector<MeshToPlace>& wanted) const {
  try {
    const RunPlacement plan =
        place_run(cluster_.places().hosts, wanted, options_.config.spares, HostScope::kOwnHosts);
    return plan.problem.empty() ? "another reservation came first; weft status lists it"
                                : plan.problem;
  } catch (const Error& error) {
    return error.message();
  }
}

Reservation RunRecovery::reserve(const RunMeshes& meshes) const {
  const std::vector<MeshToPlace> to_start = to_place(meshes, {});
  std::vector<WantedMesh> wanted = meshes.wanted();
  for (std::size_t m = 0; m < wanted.size(); ++m) wanted[m].hosts = to_start[m].hosts;
  TimePoint tell = clock_.now() + kFirstWaitReport;
  return cluster_.reserve_meshes(std::move(wanted), options_.config.spares, [&] {
    if (options_.stop.stop_requested()) return false;
    if (options_.on_wait && clock_.now() > tell) {
      options_.on_wait(wait_reason(to_start));
      tell = clock_.now() + kWaitReportInterval;
    }
    return true;
  });
}

void RunRecovery::start(RunMeshes& meshes) {
  try {
    Reservation devices = reserve(meshes);
    const std::vector<RunMeshes::Wanted> planned = meshes.wanted();
    bool is_held = true;
    std::uint32_t first = 0;
    for (const RunMeshes::Wanted& mesh : planned) {
      MeshPlacement where = devices.place(first);
      where.hosts = hosts_of(mesh.hosts);
      first += static_cast<std::uint32_t>(mesh.shape.size());
      if (is_held && start_at(meshes, where)) continue;
      // A host that is lost may have joined again when the next start fails.
      if (is_held) lost_host_ = find_lost_host();
      is_held = false;
      devices.release();
      // The head names the host that is missing.
      meshes.start_next(MeshPlacement{mesh.hosts});
    }
    lost_host_.reset();
  } catch (const Error& error) {
    try {
      if (!lost_host_) lost_host_ = find_lost_host();
    } catch (const Error&) {
      // The head does not answer. The error of the start counts.
    }
    throw Error(error);
  }
  remember(meshes);
}

/// Returns false if one of the devices is lost, or taken by now, as by an earlier try whose reply
/// was lost.
bool RunRecovery::start_at(RunMeshes& meshes, const MeshPlacement& where) {
  try {
    meshes.start_next(where);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResourceExhausted &&
        error.code() != ErrorCode::kFailedPrecondition)
      throw;
    return false;
  }
}

std::optional<std::string> RunRecovery::find_lost_host() {
  const std::vector<HostDevices> there = cluster_.places().hosts;
  for (const std::string& host : options_.hosts)
    if (std::ranges::none_of(there, [&](const HostDevices& known) {
          return known.name == host && known.accepts_processes;
        }))
      return fmt::format("host {} has left the cluster or does not respond", host);
  return std::nullopt;
}

void RunRecovery::adopt(RunMeshes& meshes) {
  replace(meshes);
  cluster_.failures().clear();
}

bool RunRecovery::recovers_from(const Error& error) const {
  if (!allowed() || options_.stop.stop_requested()) return false;
  if (lost_host_) return true;
  const bool symptom = is_secondary_failure(error) || is_connectivity_error(error);
  if (const auto told =
          cluster_.failures().first(symptom ? options_.cause_timeout : Nanoseconds::zero()))
    return told->code() == ErrorCode::kPeerDied;
  if (error.code() == ErrorCode::kInvalidConfig) return false;
  try {
    if (cluster_.has_dead_process()) return true;
  } catch (const Error&) {
    // The head does not answer. Only the error is known.
    return symptom;
  }
  return options_.reconnect_on_failed_calls && is_connectivity_error(error);
}

RestartBudget::Death RunRecovery::death_of(const Error& error) const {
  const auto incident = cluster_.failures().incident();
  if (!incident) return {.cause = error.message()};
  return {incident->process(), incident->summary(), incident->crash_signature()};
}

std::size_t RunRecovery::record_death(const RestartBudget::Death& death) {
  const TimePoint now = clock_.now();
  const RestartBudget::Decision decision = budget_.record_death(death, now);
  if (decision.restart) return *decision.restart;
  std::string all;
  for (const std::string& cause : budget_.causes(now)) all += "\n  " + cause;
  throw_error(ErrorCode::kFailedPrecondition, "{}. Deaths so far:{}",
              budget_.refusal(death.cause, decision), all);
}

RunRecovery::RestartReport RunRecovery::recover(const Error& why, RunMeshes& meshes,
                                                const std::function<void()>& connect) {
  Error error = why;
  while (true) {
    if (const auto lost = std::exchange(lost_host_, std::nullopt))
      error = Error(ErrorCode::kPeerDied, *lost);
    RestartReport recovered{.cause = cluster_.failures().root_cause(error),
                            .most = budget_.max_restarts()};
    recovered.restart = record_death(death_of(error));
    cluster_.failures().clear();
    replace(meshes);
    // A symptom may come long before the report of its cause.
    recovered.cause = cluster_.failures().root_cause(Error(error.code(), recovered.cause));
    cluster_.failures().clear();
    try {
      connect();
      return recovered;
    } catch (const Error& thrown) {
      error = thrown;
    }
    if (!recovers_from(error)) throw Error(error);
  }
}

void RunRecovery::replace(RunMeshes& meshes) {
  const TimePoint begun = clock_.now();
  TimePoint tell = begun + kFirstWaitReport;
  while (true) {
    const ReplacementAttempt attempt = try_to_replace(meshes);
    if (attempt.problem.empty()) return remember(meshes);
    const TimePoint now = clock_.now();
    if (options_.stop.stop_requested())
      throw_error(ErrorCode::kCancelled, "interrupted while waiting for devices: {}",
                  attempt.problem);
    if (!options_.config.waits && now - begun > kHostsComeBackWithin)
      throw_error(ErrorCode::kResourceExhausted,
                  "too few devices are left: {}\nAdd hosts, or set recovery.if_too_few to wait.",
                  attempt.problem);
    if (now > tell && options_.on_wait) {
      options_.on_wait(attempt.problem);
      tell = now + kWaitReportInterval;
    }
    const Nanoseconds until_told = std::max<Nanoseconds>(tell - now, std::chrono::milliseconds(1));
    cluster_.wait_for_change(attempt.version, std::min(attempt.retry_after, until_told),
                             options_.stop);
  }
}

RunRecovery::ReplacementAttempt RunRecovery::try_to_replace(RunMeshes& meshes) {
  const std::vector<MeshToPlace> wanted = to_place(meshes, meshes.find_broken());
  DeviceSnapshot places;
  try {
    places = cluster_.places();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable && error.code() != ErrorCode::kDeadlineExceeded)
      throw;
    return {error.message(), 0, kRetryAfterTransientError};
  }
  const RunPlacement plan =
      place_run(places.hosts, wanted, options_.config.spares, HostScope::kWholeRun);
  ReplacementAttempt attempt{plan.problem, places.version, kRetryWithoutChange};
  if (!attempt.problem.empty()) return attempt;
  for (std::size_t m = 0; m < wanted.size(); ++m) {
    if (auto problem = place(meshes, m, wanted[m], plan.places[m])) {
      attempt.problem = std::move(*problem);
      attempt.retry_after = kRetryAfterTransientError;
      return attempt;
    }
  }
  return attempt;
}

/// Starts a mesh at `places`, or renews it. Returns why it lacks devices, or nothing.
std::optional<std::string> RunRecovery::place(RunMeshes& meshes, std::size_t mesh,
                                              const MeshToPlace& wanted,
                                              const std::vector<HostDevice>& places) {
  const MeshPlacement where{wanted.hosts, {}, places};
  std::optional<Error> error;
  try {
    if (wanted.key.epoch == 0) {
      meshes.start_next(where);
      return std::nullopt;
    }
    const Cluster::RenewResult renewed = meshes.renew(mesh, where, wanted.broken);
    if (renewed.missing.empty()) return std::nullopt;
    error = Error(renewed.code,
                  renewed.problem.empty() ? "another device died meanwhile" : renewed.problem);
  } catch (const Error& thrown) {
    error = thrown;
    if (thrown.code() == ErrorCode::kNotFound && wanted.key.epoch != 0) meshes.drop_from(mesh);
  }
  switch (obstacle_of(error->code())) {
    case Obstacle::kPermanent: throw Error(*error);
    case Obstacle::kDeath:
      record_death({.cause = error->message(),
                    .crash_signature = error->code() == ErrorCode::kInternal
                                           ? mask_numbers(error->message())
                                           : ""});
      break;
    case Obstacle::kTransient: break;
  }
  return error->message();
}

void RunRecovery::remember(const RunMeshes& meshes) {
  const std::vector<RunMeshes::Wanted> wanted = meshes.wanted();
  const std::vector<MeshKey> keys = meshes.keys();
  std::set<std::string> used;
  for (const MeshKey& key : keys)
    for (const HostDevice& place : cluster_.meshes().places_of(key)) used.insert(place.host);
  std::erase_if(replacement_of_, [&](const auto& lost) { return used.contains(lost.first); });
  for (std::size_t m = 0; m < keys.size(); ++m) {
    std::vector<std::string> idle;  // Hosts of this mesh that the run does not use.
    for (const std::string& host : wanted[m].hosts)
      if (!used.contains(host)) idle.push_back(host);
    for (const HostDevice& place : cluster_.meshes().places_of(keys[m])) {
      const bool own = std::ranges::find(wanted[m].hosts, place.host) != wanted[m].hosts.end();
      const bool known = std::ranges::any_of(
          replacement_of_, [&](const auto& lost) { return lost.second == place.host; });
      if (own || known || idle.empty()) continue;
      replacement_of_[idle.front()] = place.host;
      idle.erase(idle.begin());
    }
  }
}

}  // namespace weft::actors
