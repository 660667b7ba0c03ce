#include "actors/cluster/blocking_work.h"

#include <memory>
#include <optional>
#include <utility>

#include "core/base/error.h"

namespace weft::actors {

BlockingWork::~BlockingWork() {
  for (Thread& thread : threads_) thread.join();
}

task<void> BlockingWork::run(Context& context, std::string name, std::function<void()> work) {
  const auto problem = std::make_shared<std::optional<Error>>();  // the handler may be cancelled
  const Wakeup done = context.make_wakeup();
  threads_.emplace_back(name, ThreadPriority::kOrdinary, [work = std::move(work), problem, done] {
    try {
      work();
    } catch (...) {
      *problem = current_error();
    }
    done.notify();
  });
  co_await done.wait();
  if (*problem) throw Error(**problem);
}

}  // namespace weft::actors
