#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "actors/call/task.h"
#include "actors/system/context.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Functions that block, which the handlers of an actor await. Each runs on a thread of its own, so
/// that several run at once: `blocking` handlers would wait for each other.
///
/// Used by that actor; its owner destroys it after the actor's end.
class BlockingWork final {
 public:
  BlockingWork() = default;
  /// Waits for the functions that run.
  ~BlockingWork();
  BlockingWork(const BlockingWork&) = delete;
  BlockingWork& operator=(const BlockingWork&) = delete;

  /// Runs `work` to its end, also if the handler is cancelled. Rethrows its error. `name`: of the
  /// thread.
  task<void> run(Context& context, std::string name, std::function<void()> work);

 private:
  struct Run {
    Thread thread;
    std::shared_ptr<std::atomic<bool>> has_ended;
  };
  void join_ended();

  std::list<Run> runs_;
};

}  // namespace weft::actors
