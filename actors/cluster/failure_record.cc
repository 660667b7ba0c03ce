#include "actors/cluster/failure_record.h"

#include <algorithm>
#include <chrono>

namespace weft::actors {
namespace {

/// Time for a lost device to be explained: it ends two seconds before its stopped agent counts as
/// lost.
constexpr auto kExplainedWithin = std::chrono::seconds(5);

}  // namespace

FailureRecord::FailureRecord(FailureScope scope, bool survives_deaths)
    : scope_(scope), survives_deaths_(survives_deaths) {}

std::optional<Error> FailureRecord::first(Nanoseconds within) const {
  std::unique_lock lock(mutex_);
  const bool wait_longer = unexplained_loss_ && within > Nanoseconds::zero();
  changed_.wait_for(lock, wait_longer ? std::max(within, Nanoseconds(kExplainedWithin)) : within,
                    [this] { return first_.has_value(); });
  return first_;
}

std::optional<Incident> FailureRecord::incident() const {
  const std::lock_guard lock(mutex_);
  return incident_;
}

std::string FailureRecord::root_cause(const Error& error) const {
  const std::lock_guard lock(mutex_);
  return incident_ ? incident_->summary() : error.message();
}

void FailureRecord::clear() {
  const std::lock_guard lock(mutex_);
  if (cluster_lost_) throw Error(*first_);
  first_.reset();
  incident_.reset();
  unexplained_loss_ = false;
}

void FailureRecord::survive_deaths() {
  const std::lock_guard lock(mutex_);
  survives_deaths_ = true;
}

bool FailureRecord::survives_deaths() const {
  const std::lock_guard lock(mutex_);
  return survives_deaths_;
}

void FailureRecord::check_spawn() const {
  const std::lock_guard lock(mutex_);
  // An owner that survives the death of a mesh may spawn another.
  const bool continues = (survives_deaths_ || scope_ == FailureScope::kOneMesh) && !cluster_lost_;
  if (first_ && !continues) throw Error(*first_);
}

bool FailureRecord::record(const Incident& incident, const std::function<bool()>& counts) {
  const Error error = incident.error();
  const std::lock_guard lock(mutex_);
  if (!failed_.emplace(MeshKey{incident.mesh, incident.epoch}, error).second) return false;
  if (!first_ && counts()) {
    first_ = error;
    incident_ = incident;
  }
  unexplained_loss_ = false;
  changed_.notify_all();
  return true;
}

bool FailureRecord::record_cluster_loss(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (cluster_lost_) return false;
  cluster_lost_ = true;
  if (!first_) first_ = error;
  changed_.notify_all();
  return true;
}

bool FailureRecord::is_cluster_lost() const {
  const std::lock_guard lock(mutex_);
  return cluster_lost_;
}

void FailureRecord::record_lost_device(const MeshKey& mesh, const std::function<bool()>& is_held) {
  const std::lock_guard lock(mutex_);
  if (!failed_.contains(mesh) && is_held()) unexplained_loss_ = true;
}

bool FailureRecord::has_failed(const MeshKey& mesh) const {
  const std::lock_guard lock(mutex_);
  return failed_.contains(mesh);
}

std::optional<Error> FailureRecord::of_mesh(const MeshKey& mesh, Nanoseconds within) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, within, [&] { return failed_.contains(mesh) || cluster_lost_; });
  const auto found = failed_.find(mesh);
  return found == failed_.end() ? std::nullopt : std::optional(found->second);
}

void FailureRecord::wait_for_explanation() const {
  std::unique_lock lock(mutex_);
  if (unexplained_loss_)
    changed_.wait_for(lock, kExplainedWithin, [this] { return first_.has_value(); });
}

void FailureRecord::wait_for_first(Nanoseconds within) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, within, [this] { return first_.has_value(); });
}

std::size_t FailureRecord::count() const {
  const std::lock_guard lock(mutex_);
  return failed_.size();
}

bool FailureRecord::wait_for_more(std::size_t seen, Nanoseconds within) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, within, [&] { return cluster_lost_ || failed_.size() != seen; });
}

}  // namespace weft::actors
