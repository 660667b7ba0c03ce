#pragma once

#include <memory>
#include <vector>

#include "actors/call/pending.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Calls of a system that wait for replies, by their ids in messages. Any thread.
class PendingCalls final {
 public:
  /// Assigns the call's id. Returns true if its deadline is the earliest, so that the timer must be
  /// set.
  bool add(const std::shared_ptr<CallState>& call);
  /// Removes and returns a call; null if it is not there.
  std::shared_ptr<CallState> take(std::uint64_t id);
  std::vector<std::shared_ptr<CallState>> take_all_of(ProcessId process);
  std::vector<std::shared_ptr<CallState>> take_all();
  /// Returns the calls that still wait.
  std::vector<std::shared_ptr<CallState>> waiting();
  /// Removes and returns the calls whose deadline has passed. Sets `next` to the next deadline.
  std::vector<std::shared_ptr<CallState>> take_expired(TimePoint now, TimePoint& next);

 private:
  struct CallSlot {
    std::shared_ptr<CallState> call;
    std::uint32_t generation = 1;
  };
  template <typename Which>
  std::vector<std::shared_ptr<CallState>> take_if(Which which);

  Mutex mutex_;  // guards the members below
  std::vector<CallSlot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t purge_at_ = 1024;
  TimePoint earliest_ = TimePoint::max();
};

}  // namespace weft::actors
