#pragma once

#include <memory>
#include <vector>

#include "actors/call/pending.h"
#include "core/base/thread.h"

namespace weft::actors {

/// The calls of a system that wait for replies, found by the id that travels. Any thread.
class PendingCalls final {
 public:
  /// Gives the call its id. True if it ends before all others, so that the timer must be set anew.
  bool add(const std::shared_ptr<CallState>& call);
  /// Takes a call out; null if it is not there (any more).
  std::shared_ptr<CallState> take(std::uint64_t id);
  std::vector<std::shared_ptr<CallState>> take_all_of(ProcessId process);
  std::vector<std::shared_ptr<CallState>> take_all();
  /// Those that wait now.
  std::vector<std::shared_ptr<CallState>> waiting();
  /// Those whose deadline has passed, and when the next one will.
  std::vector<std::shared_ptr<CallState>> take_expired(TimePoint now, TimePoint& next);

 private:
  struct Slot {
    std::shared_ptr<CallState> call;
    std::uint32_t generation = 1;
  };
  template <typename Which>
  std::vector<std::shared_ptr<CallState>> take_if(Which which);

  Mutex mutex_;  // guards what follows
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t purge_at_ = 1024;
  TimePoint earliest_ = TimePoint::max();
};

}  // namespace weft::actors
