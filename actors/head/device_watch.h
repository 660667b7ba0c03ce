#pragma once

#include <cstdint>
#include <map>

#include "actors/call/task.h"
#include "actors/call/wakeup.h"
#include "actors/head/cluster_messages.h"
#include "actors/head/resource_allocator.h"
#include "actors/system/context.h"

namespace weft::actors {

/// Answers to owners that place their meshes themselves: the devices of the cluster, and when they
/// change. The head's thread only.
class DeviceWatch final {
 public:
  /// `term`: term of the head. Versions of heads of different terms differ.
  DeviceWatch(Context& context, const ResourceAllocator& resources, std::uint64_t term)
      : context_(context), resources_(resources), term_(term) {}

  DeviceSnapshot snapshot() const;
  /// Waits until DeviceSnapshot::version differs from `seen`, or for `within_ns`. Returns the
  /// version.
  task<std::uint64_t> wait_for_change(std::uint64_t seen, std::int64_t within_ns);
  /// Notifies calls of wait_for_change() if something has changed.
  void notify_waiters();

 private:
  std::uint64_t version() const;

  Context& context_;
  const ResourceAllocator& resources_;
  const std::uint64_t term_;
  std::map<std::uint64_t, Wakeup> waiters_;  // Calls of wait_for_change(); each is notified once.
  std::uint64_t next_waiter_ = 0;
  std::uint64_t notified_change_ = 0;
};

}  // namespace weft::actors
