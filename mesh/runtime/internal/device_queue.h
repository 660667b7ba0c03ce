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
#include "mesh/runtime/internal/inbox.h"
#include "mesh/runtime/progress_board.h"
#include "mesh/runtime/step_timeline.h"

namespace weft::mesh {

/// What one execution has given its device to do, and what is to happen when it is done.
///
///   marks:    an event on the compute stream at each ──▶ timeline
///   batches:  host ──▶ staging block ──▶ compute stream
///   results:  compute stream ──▶ staging block ──▶ host
///
/// Nothing here blocks: streams wait for each other's events, and the host is told of one when it
/// is done. A CPU has done its work when the call returns: its events are done at once, and so is
/// what they are waited for with. The events of a GPU are waited for by the threads of CopyStreams,
/// and take_news() goes on with what they tell. Owner's thread only.
class DeviceQueue final {
 public:
  using Reached = std::function<void(TimePoint)>;

  /// `board` may be null. All must outlive it, and what is expected must have ended before it does.
  /// `wake` is called on other threads when there is news.
  DeviceQueue(Stream& compute, CopyStreams& copies, const Clock& clock, ProgressBoard* board,
              StepTimeline& timeline, std::function<void()> wake);

  Stream& compute() { return compute_; }
  CopyStreams& copies() { return copies_; }
  StepTimeline& timeline() { return timeline_; }

  /// Calls `reached` when the event is done: at once if it is, else by take_news(). `watch` watches
  /// the events of its stream. An event that fails fails the execution.
  void when_done(std::shared_ptr<const Event> event, EventWatch& watch, Reached reached);
  /// For what other threads tell the execution.
  const std::shared_ptr<Inbox>& inbox() const { return inbox_; }
  const std::function<void()>& wake() const { return wake_; }
  void take_news();
  /// Events that are still to come.
  std::size_t under_way() const { return under_way_; }

  /// Tells the timeline when the compute stream comes to this point of its queue.
  void mark(const Mark& mark);
  /// How many actions have been queued that the device has not begun.
  std::size_t actions_ahead() const { return actions_ahead_; }

  /// Lets `read` write what is then found in memory of the device.
  void fill(std::span<std::byte> memory, const std::function<void(std::span<std::byte>)>& read);
  bool squares_queued() const { return squares_state_ != Squares::kNone; }
  /// The sums of squares, or nothing while the device is at it: call it again after news, with the
  /// same.
  std::optional<std::span<const double>> sums_of_squares(
      std::span<const std::span<const float>> tensors);
  /// Copies the losses to the host; losses() are true when a later mark is reached.
  void download_losses(std::span<const std::byte> from);
  std::span<const float> losses() const;

  /// Why the execution cannot go on, and what that happened to: "in 'h1.out front->back' of ".
  struct Failure {
    Error error;
    std::string where;
  };
  /// Keeps the first.
  void fail(const Error& error, std::string where);
  const std::optional<Failure>& failure() const { return failure_; }
  /// After a failure: what has been queued so far still counts as expected until it is done.
  void seal();
  /// When all is done: throws the error of work that failed.
  void synchronize();

 private:
  /// What is now in the stream.
  void when_done(Stream& stream, EventWatch& watch, Reached reached) {
    when_done(stream.record(), watch, std::move(reached));
  }

  Stream& compute_;
  CopyStreams& copies_;
  const Clock& clock_;
  ProgressBoard* const board_;
  StepTimeline& timeline_;
  const std::function<void()> wake_;
  /// Shared with callbacks on other threads, the last of which may end after the execution has seen
  /// it.
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::size_t under_way_ = 0;
  std::size_t actions_ahead_ = 0;
  std::vector<StagingPool::Block> batches_;
  enum class Squares : std::uint8_t { kNone, kQueued, kDone } squares_state_ = Squares::kNone;
  StagingPool::Block squares_;
  StagingPool::Block losses_;
  std::optional<Failure> failure_;
};

}  // namespace weft::mesh
