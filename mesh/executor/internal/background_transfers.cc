#include "mesh/executor/internal/background_transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::mesh {

void BackgroundTransfers::poll(StallMonitor& watch, const std::stop_token& stop) const {
  if (stop.stop_requested()) throw_error(ErrorCode::kCancelled, "the checkpoint was cancelled");
  if (!runner_.is_running()) watch.poll_devices();
}

void BackgroundTransfers::wait_for_replication(const std::stop_token& stop) {
  StallMonitor watch = runner_.watch(replication_request_, "the copy for recovery", nullptr);
  while (replication_ && !replication_->wait_for(std::chrono::milliseconds(20))) poll(watch, stop);
}

void BackgroundTransfers::gather(const std::string& program, CheckpointEndpoint& driver,
                                 const std::stop_token& stop) {
  const std::lock_guard alone(mutex_);
  wait_for_replication(stop);
  const StepRequest request = runner_.request(program);
  auto done =
      devices_.all().within(actors::kNoDeadline).call<&DeviceActor::run_in_background>(request);
  StallMonitor watch =
      runner_.watch(request, fmt::format("'{}' of a checkpoint", program), nullptr, &driver);
  ProgramRunner::move_with_driver(
      driver, request, std::move(done),
      std::min<Nanoseconds>(watch.interval(), std::chrono::milliseconds(100)),
      [&] { poll(watch, stop); });
}

bool BackgroundTransfers::try_replicate(const std::string& program) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || replication_) return false;
  replication_request_ = runner_.request(program);
  replication_.emplace(devices_.all()
                           .within(actors::kNoDeadline)
                           .call<&DeviceActor::run_in_background>(replication_request_));
  return true;
}

bool BackgroundTransfers::try_finish_replication() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  WEFT_CHECK(replication_.has_value(), "no replication is running");
  if (!replication_->ready()) return false;
  std::exchange(replication_, std::nullopt)->get();
  return true;
}

void BackgroundTransfers::cancel_replication() {
  const std::lock_guard lock(mutex_);
  if (replication_) replication_->cancel();
  replication_.reset();
}

}  // namespace weft::mesh
