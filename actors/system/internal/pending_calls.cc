#include <algorithm>

#include "actors/system/internal/pending_calls.h"

namespace weft::actors {

bool PendingCalls::add(const std::shared_ptr<CallState>& call) {
  const std::lock_guard lock(mutex_);
  if (free_.empty() && slots_.size() >= purge_at_) {
    // Calls that ended otherwise (cancelled, refused) still hold slots.
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      if (!slots_[i].call || !slots_[i].call->done()) continue;
      slots_[i].call = nullptr;
      ++slots_[i].generation;
      free_.push_back(i);
    }
    purge_at_ = std::max<std::size_t>(1024, 2 * (slots_.size() - free_.size()));
  }
  if (free_.empty()) {
    free_.push_back(slots_.size());
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  slots_[index].call = call;
  call->id = std::uint64_t{slots_[index].generation} << 32 | index;
  if (call->deadline >= earliest_) return false;
  earliest_ = call->deadline;
  return true;
}

std::shared_ptr<CallState> PendingCalls::take(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::uint32_t>(id);
  if (index >= slots_.size() || slots_[index].generation != id >> 32 || !slots_[index].call)
    return nullptr;
  ++slots_[index].generation;
  free_.push_back(index);
  return std::move(slots_[index].call);
}

template <typename Which>
std::vector<std::shared_ptr<CallState>> PendingCalls::take_if(Which which) {
  std::vector<std::shared_ptr<CallState>> taken;
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].call || !which(*slots_[i].call)) continue;
    taken.push_back(std::move(slots_[i].call));
    slots_[i].call = nullptr;
    ++slots_[i].generation;
    free_.push_back(i);
  }
  return taken;
}

std::vector<std::shared_ptr<CallState>> PendingCalls::take_all_of(ProcessId process) {
  const std::lock_guard lock(mutex_);
  return take_if([&](const CallState& call) { return call.target->process.id == process; });
}

std::vector<std::shared_ptr<CallState>> PendingCalls::take_all() {
  const std::lock_guard lock(mutex_);
  return take_if([](const CallState&) { return true; });
}

std::vector<std::shared_ptr<CallState>> PendingCalls::waiting() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CallState>> found;
  for (const CallSlot& slot : slots_)
    if (slot.call && !slot.call->done()) found.push_back(slot.call);
  return found;
}

std::vector<std::shared_ptr<CallState>> PendingCalls::take_expired(TimePoint now, TimePoint& next) {
  const std::lock_guard lock(mutex_);
  auto expired = take_if([&](const CallState& call) { return call.deadline <= now; });
  earliest_ = TimePoint::max();
  for (const CallSlot& slot : slots_)
    if (slot.call && !slot.call->done()) earliest_ = std::min(earliest_, slot.call->deadline);
  next = earliest_;
  return expired;
}

}  // namespace weft::actors
