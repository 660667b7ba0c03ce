#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::apps {

/// The workers of a run, as its driver has them: connected, also after a death.
template <typename Worker>
class WorkerGroup {
 public:
  virtual ~WorkerGroup() = default;
  virtual actors::MeshRef<Worker> all() = 0;
  /// Replaces what has died and connects all anew. Throws `why`, or something better, where that
  /// cannot be.
  virtual void recover(const Error& why) = 0;
  /// A phase has come to its end.
  virtual void phase_done() {}
  /// Of the next exchange among them: each is used once.
  std::uint64_t next_exchange() { return ++exchanges_; }

  /// Runs `phase` with all workers. After a death again, when `begin` has begun with those that
  /// recover() leaves. A phase may take as long as it likes: deaths are told by the cluster.
  template <typename Phase, typename Begin>
  auto repeat(const Phase& phase, const Begin& begin) {
    while (true) {
      std::optional<Error> problem;
      try {
        auto result = phase(all().within(actors::kNoDeadline));
        phase_done();
        return result;
      } catch (const Error& error) {
        problem = error;
      }
      // What the recovery itself meets may be another death.
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
