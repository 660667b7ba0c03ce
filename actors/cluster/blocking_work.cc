#include "actors/cluster/blocking_work.h"

#include <optional>
#include <utility>

#include "core/base/error.h"

namespace weft::actors {

BlockingWork::~BlockingWork() {
  for (Run& run : runs_) run.thread.join();
}

void BlockingWork::join_ended() {
  std::erase_if(runs_, [](Run& run) {
    if (!*run.has_ended) return false;
    run.thread.join();
    return true;
  });
}

task<void> BlockingWork::run(Context& context, std::string name, std::function<void()> work) {
  join_ended();
  const auto problem = std::make_shared<std::optional<Error>>();  // the handler may be cancelled
  const auto has_ended = std::make_shared<std::atomic<bool>>(false);
  const Wakeup done = context.make_wakeup();
  Thread thread(name, ThreadPriority::kOrdinary,
                [work = std::move(work), problem, has_ended, done] {
                  try {
                    work();
                  } catch (...) {
                    *problem = current_error();
                  }
                  done.notify();
                  *has_ended = true;
                });
  runs_.push_back({std::move(thread), has_ended});
  co_await done.wait();
  if (*problem) throw Error(**problem);
}

}  // namespace weft::actors
