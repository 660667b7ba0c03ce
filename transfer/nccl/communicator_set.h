#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/base/clock.h"
#include "transfer/nccl/collective_cancellation.h"
#include "transfer/nccl/communicator_cache.h"
#include "transfer/nccl/device_collectives.h"

namespace weft::transfer {

/// Id that the members of a communicator must share before they create it. Sent in messages of the
/// control plane.
struct CommunicatorId {
  CommunicatorGroup group;
  std::vector<std::byte> id;
  static constexpr auto fields = weft::fields(&CommunicatorId::group, &CommunicatorId::id);
};

/// Communicators of one device in one epoch of its mesh. Used by one thread at a time, the
/// device's.
class CommunicatorSet final {
 public:
  /// The arguments must outlive the set.
  CommunicatorSet(DeviceId self, DeviceCollectives& library, const Clock& clock,
                  CollectiveCancellation& cancellation)
      : self_(self), library_(library), clock_(clock), cancellation_(cancellation) {}

  /// Creates ids for the groups whose first member is this device.
  std::vector<CommunicatorId> make_ids(std::span<const CommunicatorGroup> groups) const;
  /// Destroys and creates the communicators of which this device is a member, one by one in the
  /// order of `changes`, which is equal on all devices. Throws Error(kDeadlineExceeded) that names
  /// the group if one takes longer than `timeout`, and Error(kInvalidArgument) if an id is missing.
  void apply(std::uint64_t epoch, const CommunicatorChanges& changes,
             std::span<const CommunicatorId> ids, Nanoseconds timeout);
  /// Returns the communicator, ready for calls. Blocks while earlier calls have not reached the
  /// stream.
  DeviceCommunicator& ready(const CommunicatorGroup& group, Nanoseconds timeout);
  /// Throws the error of a broken communicator.
  void check();
  /// Aborts all communicators and their operations.
  void abort() noexcept;
  /// Stops all operations. Replaces every communicator with dead members by one of the survivors.
  /// Aborts all others, since their members may have stopped at different operations. The remaining
  /// ones are those of CommunicatorCache::shrink() for this device.
  void shrink(std::uint64_t epoch, std::span<const DeviceId> dead, Nanoseconds timeout);

  bool contains(const CommunicatorGroup& group) const { return communicators_.contains(group); }
  std::size_t size() const { return communicators_.size(); }

 private:
  void wait_until_ready(DeviceCommunicator& communicator, const CommunicatorGroup& group,
                        const char* what, Nanoseconds timeout);

  const DeviceId self_;
  DeviceCollectives& library_;
  const Clock& clock_;
  CollectiveCancellation& cancellation_;
  std::uint64_t epoch_ = 0;
  std::map<CommunicatorGroup, std::unique_ptr<DeviceCommunicator>> communicators_;
};

}  // namespace weft::transfer
