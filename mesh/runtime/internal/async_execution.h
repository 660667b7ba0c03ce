#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mesh/runtime/copy_engine.h"
#include "mesh/runtime/internal/notice.h"
#include "mesh/runtime/step_timeline.h"

namespace weft::mesh {

/// What the engine is given for a transfer.
struct HostBuffers {
  std::span<const std::byte> source;
  std::span<std::byte> destination;
};

/// What one execution has under way on a device that runs by itself, in memory of its own.
///
///   send:     compute ──event──▶ copy out to a staging block ──notice──▶ engine
///   receive:  engine ──report──▶ copy in from a staging block ──event──▶ compute
///   times:    an event on the compute stream at each mark ──notice──▶ timeline
///
/// Streams wait for each other's events; the host waits for none. Notices say when one is done.
/// Owner's thread only.
class AsyncExecution final {
 public:
  /// `compute` and `copies` must outlive it, and what the notices stand for must have ended before
  /// it does.
  AsyncExecution(CopyEngine& copies, Stream& compute, std::size_t handles,
                 std::shared_ptr<Inbox> inbox, std::function<void()> wake);

  /// A notice will come when the event is done; `watch` watches the events of its stream.
  void watch(std::shared_ptr<const Event> event, EventWatch& watch, Notice::Kind kind,
             std::uint32_t index);

  /// Marks the point that the compute stream's queue has come to.
  void mark(const Mark& mark);
  /// How many actions have been queued that the device has not begun.
  std::size_t actions_ahead() const { return actions_ahead_; }

  /// Takes host memory for what a transfer reads and writes in the device's memory (empty where it
  /// does not), and begins to copy the source out; a kCopiedOut says when it is there. One memory
  /// for both if they are the same.
  void stage(std::uint32_t handle, std::span<const std::byte> source,
             std::span<std::byte> destination);
  const HostBuffers& host_buffers(std::uint32_t handle) const { return staged_[handle].host; }
  /// The engine has done its part of a staged transfer. True if its destination is now on its way
  /// to the device: a kLanded follows.
  bool land(std::uint32_t handle, const transfer::TransferReport& report);
  /// Whether compute may use the destination without waiting.
  bool landed(std::uint32_t handle) const;
  /// Lets compute wait for the destination.
  void await_landing(std::uint32_t handle);

  /// Host memory for a batch, and its way to the device.
  StagingPool::Block batch_block(std::size_t bytes) { return copies_.staging.take(bytes); }
  void upload(StagingPool::Block block, std::span<std::byte> to);
  bool squares_queued() const { return squares_state_ != Squares::kNone; }
  /// The sums of squares, or nothing while the device is at it. Call it again after a kSquares,
  /// with the same.
  std::optional<std::span<const double>> sums_of_squares(
      std::span<const std::span<const float>> tensors);
  /// Copies the losses to the host; losses() are true when a later mark is reached.
  void download_losses(std::span<const std::byte> from);
  std::span<const float> losses() const;

  /// Takes up what a notice says; gives the report of the transfer that has ended by it, if one
  /// has.
  std::optional<transfer::TransferReport> take(const Notice& notice, StepTimeline& timeline);

  /// Checkpoints move everything that a device holds: not all of it through host memory at once.
  bool room_for_more() const { return copies_.staging.bytes_in_use() < kMostStaged; }
  /// After a failure: what has been queued so far still counts as under way until it is done.
  void seal();
  /// Notices that are still to come.
  std::size_t under_way() const { return under_way_; }
  /// When all is done: throws the error of work that failed.
  void synchronize();

 private:
  static constexpr std::size_t kMostStaged = std::size_t{256} << 20;

  struct Staged {
    StagingPool::Block source, destination;
    HostBuffers host;                   ///< In these.
    std::span<std::byte> landing;       ///< In the device's memory.
    std::shared_ptr<const Event> free;  ///< The landing may be written.
    std::shared_ptr<const Event> landed;
    std::optional<transfer::TransferReport> report;  ///< Until it has landed.
  };

  /// A notice will come when what is now in the stream is done.
  std::shared_ptr<const Event> watch(Stream& stream, EventWatch& watch, Notice::Kind kind,
                                     std::uint32_t index);

  CopyEngine& copies_;
  Stream& compute_;
  const std::shared_ptr<Inbox> inbox_;  // shared with callbacks on the watches' threads
  const std::function<void()> wake_;
  std::deque<Mark> marks_;  ///< Not reached yet.
  std::size_t actions_ahead_ = 0;
  std::vector<Staged> staged_;  ///< By handle.
  std::vector<StagingPool::Block> batches_;
  enum class Squares : std::uint8_t { kNone, kQueued, kDone } squares_state_ = Squares::kNone;
  StagingPool::Block squares_;
  StagingPool::Block losses_;
  std::size_t under_way_ = 0;
};

}  // namespace weft::mesh
