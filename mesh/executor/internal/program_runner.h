#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "mesh/executor/device_group.h"
#include "mesh/executor/stall_monitor.h"

namespace weft::mesh {

/// Runs installed programs on all devices to their end, and judges their progress meanwhile.
///
/// Any thread, but one call of run() or run_with_driver() at a time. Borrows the devices.
class ProgramRunner final {
 public:
  ProgramRunner(const DeviceGroup& devices, const ProgressLimits& limits)
      : devices_(devices), limits_(limits) {}

  /// Gives the request the next execution number.
  StepRequest number(StepRequest request) {
    request.execution_number = ++executions_;
    return request;
  }
  /// Returns a numbered request for a program that reads no batch.
  StepRequest request(const std::string& program);

  /// Runs a numbered request. `what` names the execution in messages; `programs` are those that it
  /// runs.
  std::vector<StepReport> run(const StepRequest& request, std::string what,
                              const std::vector<Program>& programs);
  /// Runs programs that read no batch.
  void run(const std::vector<Program>& programs, std::string what);
  /// Runs a checkpoint's transfer between the devices and the driver.
  void run_with_driver(const std::vector<Program>& programs, CheckpointEndpoint& driver);
  /// Returns whether run() is running.
  bool is_running() const { return running_; }

  /// Returns the watch of an execution. `programs`: see StallMonitor::Devices. `driver`: null if
  /// the driver takes no part.
  StallMonitor watch(const StepRequest& request, std::string what,
                     const std::vector<Program>* programs,
                     const CheckpointEndpoint* driver = nullptr) const;

  /// Waits for a call to all devices while they make progress.
  template <typename Result>
  static Result wait(actors::Future<Result> future, StallMonitor watch) {
    try {
      while (!future.wait_for(watch.interval())) watch.poll_devices();
    } catch (...) {
      future.cancel();
      throw;
    }
    return future.get();
  }
  /// Runs the driver's part of a transfer and waits for it and for the devices' part, `done`. Calls
  /// `on_poll` meanwhile, at least every `interval`. An error of any of the three cancels the rest.
  template <typename Done>
  static void move_with_driver(CheckpointEndpoint& driver, const StepRequest& request, Done done,
                               Nanoseconds interval, const std::function<void()>& on_poll) {
    bool ended = false;
    const auto poll_both = [&] {
      on_poll();
      // A failed device does not finish its transfers, so its error ends the driver's part.
      if (ended || !done.ready()) return;
      ended = true;
      done.get();
    };
    try {
      driver.run(request, poll_both);
      while (!ended && !done.wait_for(interval)) poll_both();
      if (!ended) done.get();
    } catch (...) {
      if (!ended) done.cancel();
      throw;
    }
  }

 private:
  actors::Future<std::vector<StepReport>> start(const StepRequest& request) const;

  const DeviceGroup& devices_;
  const ProgressLimits limits_;
  const SteadyClock clock_;
  std::atomic<std::uint64_t> executions_ = 0;  ///< Number of executions so far.
  std::atomic<bool> running_ = false;
};

}  // namespace weft::mesh
