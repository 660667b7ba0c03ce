#include "actors/head/device_watch.h"

#include <utility>

namespace weft::actors {
namespace {

/// Factor of the term in a version, so that versions of different heads differ.
constexpr std::uint64_t kTerm = std::uint64_t{1} << 32;

}  // namespace

std::uint64_t DeviceWatch::version() const { return term_ * kTerm + resources_.changes(); }

DeviceSnapshot DeviceWatch::snapshot() const { return {version(), resources_.hosts()}; }

void DeviceWatch::notify_waiters() {
  if (std::exchange(notified_change_, resources_.changes()) == resources_.changes()) return;
  for (const auto& [number, waiter] : std::exchange(waiters_, {})) waiter.notify();
}

task<std::uint64_t> DeviceWatch::wait_for_change(std::uint64_t seen, std::int64_t within_ns) {
  if (version() != seen) co_return version();
  const Wakeup changed = context_.make_wakeup();
  const std::uint64_t waiter = next_waiter_++;
  waiters_.emplace(waiter, changed);
  co_await changed.wait_for(Nanoseconds(within_ns));
  waiters_.erase(waiter);
  co_return version();
}

}  // namespace weft::actors
