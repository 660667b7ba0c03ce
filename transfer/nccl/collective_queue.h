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
  Nanoseconds create_timeout = std::chrono::minutes(2);  ///< Of one communicator.
  /// How long the device may be at work for operations without one of them coming to its end.
  Nanoseconds operation_timeout = std::chrono::minutes(5);
};

/// Executes the operations of one device: in the order of all devices, on a stream of its own.
///
///   open(epoch) ─▶ begin(order) ─▶ start(op) ... wait(op) ─▶ begin(order) ─▶ ...
///        ▲                             │ an error, cancel(), or poll() sees one
///        └──────────── abort() ◀───────┘
///
/// The owner calls start() in whatever order its program says; an operation goes to the stream when
/// all that come before it in the order have gone. One thread at a time, the one that uses the
/// device; cancel(): any thread.
class CollectiveQueue final {
 public:
  /// All must outlive the queue.
  CollectiveQueue(DeviceId self, DeviceCollectives& library, Device& device, const Clock& clock,
                  CollectiveQueueOptions options = {});
  /// Aborts what is under way.
  ~CollectiveQueue();
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  /// What this device has to contribute before open(): ids for groups whose first member it is. To
  /// be carried to their members.
  std::vector<CommunicatorId> make_ids(std::span<const CommunicatorGroup> groups) const {
    return communicators_.make_ids(groups);
  }
  /// Ends and creates communicators, on all devices with equal `changes` (see CommunicatorLedger);
  /// waits for the other members.
  void open(std::uint64_t epoch, const CommunicatorChanges& changes,
            std::span<const CommunicatorId> ids);
  /// Lets members of these communicators exchange a byte, all with all, and waits for it: what the
  /// library puts off to the first use (connections, memory) is then done, and start() waits for
  /// nobody. All members call it with the same groups in the same order; those that this device is
  /// no member of are passed over.
  void connect(std::span<const CommunicatorGroup> groups);
  /// Goes on without devices that are dead: stops everything, as abort() does, but keeps what
  /// CommunicatorSet::shrink() can. All survivors call it.
  void shrink(std::uint64_t epoch, std::span<const DeviceId> dead);
  /// Makes room for the staging of programs to come, so that no step has to.
  void reserve_staging(std::uint64_t bytes);

  /// Begins an execution of a program with these operations of this device, see order_of_device().
  /// Throws Error(kFailedPrecondition) if the one before has operations that were not started.
  void begin(std::vector<OperationKey> order);
  /// This device's part of an operation may go ahead once `ready` is done (null: at once). One
  /// source and one destination per tensor of the part, in device memory, empty where it has none.
  /// They and `part` stay valid and unchanged until done(). May wait for other devices the first
  /// time that a communicator is used.
  void start(const OperationKey& key, const DeviceOperations& part,
             std::span<const std::span<const std::byte>> sources,
             std::span<const std::span<std::byte>> destinations, std::unique_ptr<Event> ready);
  /// What is queued on `stream` from now on begins when the operation is done. The host does not
  /// wait.
  void wait(const OperationKey& key, weft::Stream& stream);
  /// Whether the operation has been done.
  bool done(const OperationKey& key) const;
  /// What has gone to the stream of this execution, in order.
  std::span<const OperationKey> on_stream() const { return std::span(order_).first(next_); }
  /// When the stream comes to an operation that is there, and when it leaves it.
  struct Passage {
    /// Shared with those who watch them, who may see the end later.
    std::shared_ptr<const Event> begun, done;
  };
  const Passage& passage(const OperationKey& key) const { return queued_.at(key).passage; }
  /// What the stream stands at, or has just left; nothing where all that was started is done, or
  /// held back.
  std::optional<OperationKey> current() const;
  /// Nothing is under way.
  bool idle() const;
  /// To be called now and then while something is under way: throws the error of a communicator, of
  /// cancel(), or Error(kDeadlineExceeded) when nothing has moved for too long.
  void poll();

  /// The operations of `epoch` and older ones will not come to their end: every call for them
  /// throws `error` from now on. The owner then calls abort(). Any thread.
  void cancel(std::uint64_t epoch, Error error) { cancellation_.cancel(epoch, std::move(error)); }
  /// Stops everything on the device and gives up all communicators. Buffers are free when it
  /// returns; throws Error(kDeadlineExceeded) if the device does not come to rest: the process must
  /// then be replaced.
  void abort();

 private:
  struct Pending {
    const DeviceOperations* part;
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> destinations;
    std::unique_ptr<Event> ready;
  };
  struct UnderWay {
    std::unique_ptr<Event> ready;  ///< May be null.
    Passage passage;
  };

  void enqueue_startable();
  void enqueue(const OperationKey& key, Pending operation);
  std::byte* address(const BufferPlace& place, const Pending& operation) const;
  void stop_stream();
  void exchange_bytes(const CommunicatorGroup& group);
  void forget_operations();

  const DeviceId self_;
  DeviceCollectives& library_;
  Device& device_;
  const Clock& clock_;
  const CollectiveQueueOptions options_;
  CollectiveCancellation cancellation_;
  CommunicatorSet communicators_;
  std::unique_ptr<weft::Stream> stream_;
  /// One for all: operations follow each other on the stream.
  DeviceMemory staging_;
  std::vector<DeviceMemory> outgrown_;  ///< Staging that operations under way may still use.
  std::uint64_t epoch_ = 0;
  std::vector<OperationKey> order_;
  std::set<OperationKey> expected_;
  std::size_t next_ = 0;                     ///< In order_: the first that is not on the stream.
  std::map<OperationKey, Pending> pending_;  ///< Started, not on the stream.
  std::map<OperationKey, UnderWay> queued_;  ///< On the stream, of this execution.
  std::size_t oldest_ = 0;                   ///< In order_: the first that was not seen done.
  /// When something last came to its end or was the device's own to do.
  TimePoint moved_;
};

}  // namespace weft::transfer
