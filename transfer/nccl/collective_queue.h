#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/base/clock.h"
#include "core/device/device.h"
#include "transfer/nccl/communicator_set.h"
#include "transfer/nccl/operation_order.h"

namespace weft::transfer {

struct CollectiveQueueOptions {
  /// Time limit of creating one communicator.
  Nanoseconds create_timeout = std::chrono::minutes(2);
  /// Time limit of device work without an operation that completes.
  Nanoseconds operation_timeout = std::chrono::minutes(5);
};

/// Executes the operations of one device on a stream of its own, in an order common to all devices.
///
///   open(epoch) ─▶ begin(order) ─▶ start(op) ... wait(op) ─▶ begin(order) ─▶ ...
///        ▲                             │ an error, cancel(), or poll() throws
///        └──────────── abort() ◀───────┘
///
/// The owner calls start() in the order of its program. An operation is enqueued on the stream once
/// all earlier operations of the common order have been. One thread at a time, the one that uses
/// the device; cancel(): any thread.
class CollectiveQueue final {
 public:
  /// The arguments must outlive the queue.
  CollectiveQueue(DeviceId self, DeviceCollectives& library, Device& device, const Clock& clock,
                  CollectiveQueueOptions options = {});
  /// Aborts operations in progress.
  ~CollectiveQueue();
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  /// Creates ids for the groups whose first member is this device. The control plane carries them
  /// to the other members before open().
  std::vector<CommunicatorId> make_ids(std::span<const CommunicatorGroup> groups) const {
    return communicators_.make_ids(groups);
  }
  /// Destroys and creates communicators. All devices call it with equal `changes` (see
  /// CommunicatorCache). Blocks for the other members.
  void open(std::uint64_t epoch, const CommunicatorChanges& changes,
            std::span<const CommunicatorId> ids);
  /// Exchanges a byte between all members of each communicator, and blocks until done. This
  /// triggers the work that the library defers to first use (connections, memory), so that start()
  /// need not wait for other devices. All members call it with the same groups in the same order;
  /// groups without this device are skipped.
  void connect(std::span<const CommunicatorGroup> groups);
  /// Continues without dead devices. Stops all operations as abort() does, but keeps the
  /// communicators that CommunicatorSet::shrink() can keep. All survivors call it.
  void shrink(std::uint64_t epoch, std::span<const DeviceId> dead);
  /// Allocates staging memory for later programs, so that no step has to.
  void reserve_staging(std::uint64_t bytes);

  /// Begins an execution of a program with these operations of this device; see order_of_device().
  /// Throws Error(kFailedPrecondition) if operations of the previous execution were not started.
  void begin(std::vector<OperationKey> order);
  /// Starts this device's part of an operation once `ready` is done (null: at once). Takes one
  /// source and one destination per tensor of the part, in device memory, empty if the device has
  /// none. The buffers and `part` stay valid and unchanged until done(). May wait for other devices
  /// at the first use of a communicator.
  void start(const OperationKey& key, const DeviceOperations& part,
             std::span<const std::span<const std::byte>> sources,
             std::span<const std::span<std::byte>> destinations, std::unique_ptr<Event> ready);
  /// Makes later work on `stream` wait until the operation is done. Does not block the host.
  void wait(const OperationKey& key, weft::Stream& stream);
  /// Returns true if the operation is done.
  bool done(const OperationKey& key) const;
  /// Returns the operations of this execution that are on the stream, in order.
  std::span<const OperationKey> on_stream() const { return std::span(order_).first(next_); }
  /// Events at which the stream begins and completes an operation.
  struct OperationEvents {
    /// Shared with observers, which may read them after the operation.
    std::shared_ptr<const Event> begun, done;
  };
  const OperationEvents& passage(const OperationKey& key) const { return queued_.at(key).passage; }
  /// Returns the oldest operation on the stream that is not done, if any.
  std::optional<OperationKey> current() const;
  /// Returns true if no operation is in progress.
  bool idle() const;
  /// Checks for failures; call it regularly while operations are in progress. Throws the error of a
  /// communicator or of cancel(), or Error(kDeadlineExceeded) if nothing has completed for too
  /// long.
  void poll();

  /// Cancels the operations of `epoch` and older epochs: every later call for them throws `error`.
  /// The owner then calls abort(). Any thread.
  void cancel(std::uint64_t epoch, Error error) { cancellation_.cancel(epoch, std::move(error)); }
  /// Stops all work on the device and destroys all communicators. Buffers are free when it returns.
  /// Throws Error(kDeadlineExceeded) if the device does not become idle; the process must then be
  /// replaced.
  void abort();

 private:
  struct PendingOperation {
    const DeviceOperations* part;
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> destinations;
    std::unique_ptr<Event> ready;
  };
  struct EnqueuedOperation {
    std::unique_ptr<Event> ready;  ///< Event awaited first. May be null.
    OperationEvents passage;
  };

  void enqueue_startable();
  void enqueue(const OperationKey& key, PendingOperation operation);
  void enqueue_step(const CopyStep& step, const PendingOperation& operation);
  void enqueue_step(const RoundStep& step, const PendingOperation& operation);
  void enqueue_step(const SumStep& step, const PendingOperation& operation);
  std::byte* address(const BufferPlace& place, const PendingOperation& operation) const;
  void stop_stream();
  void exchange_bytes(const CommunicatorGroup& group);
  void clear_operations();

  const DeviceId self_;
  DeviceCollectives& library_;
  Device& device_;
  const Clock& clock_;
  const CollectiveQueueOptions options_;
  CollectiveCancellation cancellation_;
  CommunicatorSet communicators_;
  std::unique_ptr<weft::Stream> stream_;
  /// Staging memory of all operations, since they follow each other on the stream.
  DeviceMemory staging_;
  /// Outgrown staging memory that operations in progress may still use.
  std::vector<DeviceMemory> retired_staging_;
  std::uint64_t epoch_ = 0;
  std::vector<OperationKey> order_;
  std::set<OperationKey> expected_;
  std::size_t next_ = 0;  ///< Index in order_ of the first operation that is not on the stream.
  std::map<OperationKey, PendingOperation> pending_;  ///< Operations started, not on the stream.
  std::map<OperationKey, EnqueuedOperation>
      queued_;              ///< Operations of this execution on the stream.
  std::size_t oldest_ = 0;  ///< Index in order_ of the first operation not seen done.
  /// Time when an operation last completed or waited for this device's own work.
  TimePoint moved_;
};

}  // namespace weft::transfer
