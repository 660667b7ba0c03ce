#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "mesh/runtime/copy_streams.h"
#include "mesh/runtime/internal/callback_queue.h"
#include "mesh/runtime/progress_board.h"
#include "mesh/runtime/step_timeline.h"

namespace weft::mesh {

/// Work that one execution has queued on its device, and callbacks for its completion.
///
///   marks:    an event on the compute stream at each ──▶ timeline
///   batches:  host ──▶ staging block ──▶ compute stream
///   results:  compute stream ──▶ staging block ──▶ host
///
/// Nothing here blocks: streams wait for each other's events, and callbacks tell the host that an
/// event is done. A CPU finishes its work before a call returns, so callbacks run at once. Events
/// of a GPU are awaited by the threads of CopyStreams, and drain_events() runs their callbacks.
/// Owner's thread only.
class DeviceQueue final {
 public:
  using Reached = std::function<void(TimePoint)>;

  /// `board` may be null. All must outlive it. Expected events must be done before it is destroyed.
  /// `wake` is called on other threads when drain_events() has work.
  DeviceQueue(Stream& compute, CopyStreams& copies, const Clock& clock, ProgressBoard* board,
              StepTimeline& timeline, std::function<void()> wake);

  Stream& compute() { return compute_; }
  CopyStreams& copies() { return copies_; }
  StepTimeline& timeline() { return timeline_; }

  /// Calls `reached` when the event is done: at once if it is, else from drain_events(). `watch`
  /// must belong to the event's stream. A failed event fails the execution.
  void on_done(std::shared_ptr<const Event> event, EventWatch& watch, Reached reached);
  /// Queue through which other threads reach the execution.
  const std::shared_ptr<CallbackQueue>& callbacks() const { return callbacks_; }
  const std::function<void()>& wake() const { return wake_; }
  void drain_events();
  /// Number of events that are not done yet.
  std::size_t pending_events() const { return pending_events_; }

  /// Records `mark` in the timeline when the compute stream reaches this point of its queue.
  void record_mark(const Mark& mark);
  /// Number of queued actions that the device has not begun.
  std::size_t actions_ahead() const { return actions_ahead_; }

  /// Calls `read` to fill host memory and queues the copy to `memory`. In host memory, `read` fills
  /// it directly.
  void fill(std::span<std::byte> memory, const std::function<void(std::span<std::byte>)>& read);
  /// Returns the sums of squares, or nothing while the device computes them. Then call it again
  /// after `wake`, with equal `tensors`.
  std::optional<std::span<const double>> sums_of_squares(
      std::span<const std::span<const float>> tensors);
  /// Copies the losses to the host. losses() is valid once a later mark is reached.
  void download_losses(std::span<const std::byte> from);
  std::span<const float> losses() const;

  /// Error that ends the execution, and its place: "in 'h1.out front->back' of ".
  struct Failure {
    Error error;
    std::string where;
  };
  /// Records a failure. Keeps the first one.
  void fail(const Error& error, std::string where);
  const std::optional<Failure>& failure() const { return failure_; }
  /// Call after a failure. Work queued so far counts as expected until it is done.
  void expect_queued_work();
  /// Blocks until the streams are done. Throws the error of failed work.
  void synchronize();

 private:
  /// Calls `reached` when the stream's work so far is done.
  void on_done(Stream& stream, EventWatch& watch, Reached reached) {
    on_done(stream.record(), watch, std::move(reached));
  }

  Stream& compute_;
  CopyStreams& copies_;
  const Clock& clock_;
  ProgressBoard* const board_;
  StepTimeline& timeline_;
  const std::function<void()> wake_;
  /// Shared with callbacks on other threads, which may outlive the execution for a moment.
  const std::shared_ptr<CallbackQueue> callbacks_ = std::make_shared<CallbackQueue>();
  std::size_t pending_events_ = 0;
  std::size_t actions_ahead_ = 0;
  std::vector<StagingPool::Block> batches_;
  enum class Squares : std::uint8_t { kNone, kQueued, kDone } squares_state_ = Squares::kNone;
  StagingPool::Block squares_;
  StagingPool::Block losses_;
  std::optional<Failure> failure_;
};

}  // namespace weft::mesh
