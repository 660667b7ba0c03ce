#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/cluster/revocable_target.h"
#include "actors/head/cluster_messages.h"
#include "actors/system/system.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Stops of actors in shared processes that did not confirm them: the link to the process was cut,
/// or the handlers of the actors go on. Repeats each stop until the process confirms it.
///
/// Owned by a Cluster. Any thread; no function blocks.
class RepeatedStops final {
 public:
  /// Pause between two attempts to stop the same actors.
  static constexpr Nanoseconds kRepeatAfter = std::chrono::seconds(1);
  /// Time after which a stop is given up. A shared process that its owner has not reached for that
  /// long has exited.
  static constexpr Nanoseconds kGiveUpAfter = std::chrono::minutes(10);

  /// `system`: sends the calls, and outlives this object.
  explicit RepeatedStops(System& system) : system_(system), binding_(ear_, *this) {}
  RepeatedStops(const RepeatedStops&) = delete;
  RepeatedStops& operator=(const RepeatedStops&) = delete;

  /// Repeats a stop of the actors that `mesh` has in a process. Later epochs of the mesh are not
  /// stopped.
  void add(const ProcessRef& process, const MeshKey& mesh);
  /// Returns the number of stops that are not confirmed.
  std::size_t size() const;

 private:
  struct Stop {
    ProcessRef process;
    MeshKey mesh;
    TimePoint give_up;
    std::shared_ptr<CallState> call;  ///< Latest attempt; null before the first.
  };
  /// Removes the stops that are confirmed, and begins the next attempts of the others.
  void repeat();
  void repeat_later();
  /// Returns whether a stop has to go on. Call it under mutex_.
  bool is_needed(const Stop& stop, TimePoint now) const;

  System& system_;
  RevocableTarget<RepeatedStops> ear_;
  mutable Mutex mutex_;
  std::vector<Stop> stops_;  // guarded by mutex_
  // Declared last: enables the timer.
  RevocableTarget<RepeatedStops>::Binding binding_;
};

}  // namespace weft::actors
