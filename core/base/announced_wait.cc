#include "core/base/announced_wait.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <utility>

#include "core/base/platform.h"
#include "core/base/terminal.h"

namespace weft {
namespace {

void say_on_standard_error(const std::string& text) {
  say(stderr, "{}\n", wrapped_for_terminal(STDERR_FILENO, text));
}

}  // namespace

AnnouncedWait::AnnouncedWait(std::string what, Nanoseconds at_most, Say say, Nanoseconds after)
    : at_most_(at_most),
      after_(after),
      say_(say ? std::move(say) : say_on_standard_error),
      what_(std::move(what)) {
  if (Platform::simulated() != nullptr || at_most_ <= after_) return;
  thread_ = Thread("announced-wait", ThreadPriority::kOrdinary, [this] { announce(); });
}

AnnouncedWait::~AnnouncedWait() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void AnnouncedWait::update(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void AnnouncedWait::announce() {
  std::string text;
  {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, after_, [this] { return over_; })) return;
    text = fmt::format("waiting for {} (at most {:.0f} s)", what_, in_seconds(at_most_));
  }
  say_(text);
}

}  // namespace weft
