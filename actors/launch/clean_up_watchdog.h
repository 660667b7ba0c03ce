#pragma once

#include <mutex>
#include <string>

#include "actors/cluster/cluster.h"
#include "actors/launch/driver_interruption.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Time limit of a driver's clean-up, AppRun::kCleanUpWithin. Ends the process if a destructor
/// waits for a device, a connection or a disk that never answers. Owner's thread only.
class CleanUpWatchdog final {
 public:
  CleanUpWatchdog(Cluster& cluster, const DriverInterruption& interruption)
      : cluster_(cluster), interruption_(interruption) {}
  ~CleanUpWatchdog();
  CleanUpWatchdog(const CleanUpWatchdog&) = delete;
  CleanUpWatchdog& operator=(const CleanUpWatchdog&) = delete;

  /// Starts the limit; later calls do nothing.
  void begin();

 private:
  void watch();
  std::string describe_own_calls() const;

  Cluster& cluster_;
  const DriverInterruption& interruption_;
  Mutex mutex_;
  Condition changed_;
  bool over_ = false;  // guarded by mutex_
  Thread thread_;
};

}  // namespace weft::actors
