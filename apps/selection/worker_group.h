#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::apps {

/// Connected workers of a run, as its driver uses them. Survives deaths of workers.
template <typename Worker>
class WorkerGroup {
 public:
  virtual ~WorkerGroup() = default;
  virtual actors::MeshRef<Worker> all() = 0;
  /// Replaces dead workers and reconnects all. Throws `why`, or a more specific error, if that is
  /// impossible.
  virtual void recover(const Error& why) = 0;
  /// Called after each phase.
  virtual void on_phase_done() {}
  /// Returns the number of the workers' next exchange. Each number is used once.
  std::uint64_t next_exchange() { return ++exchanges_; }

  /// Runs `phase` with all workers. After a worker's death, calls recover() and `begin`, then runs
  /// the phase again. Phases have no deadline, as the cluster reports deaths.
  template <typename Phase, typename Begin>
  auto run_with_recovery(const Phase& phase, const Begin& begin) {
    while (true) {
      std::optional<Error> problem;
      try {
        auto result = phase(all().within(actors::kNoDeadline));
        on_phase_done();
        return result;
      } catch (const Error& error) {
        problem = error;
      }
      // The recovery itself may fail because of another death.
      while (problem) {
        const Error why = *std::exchange(problem, std::nullopt);
        recover(why);
        try {
          begin();
        } catch (const Error& error) {
          problem = error;
        }
      }
    }
  }

 private:
  std::uint64_t exchanges_ = 0;
};

}  // namespace weft::apps
