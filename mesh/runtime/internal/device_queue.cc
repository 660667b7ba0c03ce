#include "mesh/runtime/internal/device_queue.h"

#include <utility>

#include "core/base/outcome.h"

namespace weft::mesh {
namespace {

template <typename T>
std::span<T> as(const StagingPool::Block& block) {
  return {reinterpret_cast<T*>(block.span().data()), block.span().size() / sizeof(T)};
}

}  // namespace

DeviceQueue::DeviceQueue(Stream& compute, CopyStreams& copies, const Clock& clock,
                         ProgressBoard* board, StepTimeline& timeline, std::function<void()> wake)
    : compute_(compute),
      copies_(copies),
      clock_(clock),
      board_(board),
      timeline_(timeline),
      wake_(std::move(wake)) {}

void DeviceQueue::on_done(std::shared_ptr<const Event> event, EventWatch& watch, Reached reached) {
  // Callbacks keep their order, so none may overtake pending ones.
  if (pending_events_ == 0 && event->done()) {
    try {
      event->synchronize();
    } catch (...) {
      return fail(current_error(), "on the device, at ");
    }
    return reached(clock_.now());
  }
  callbacks_->expect();
  ++pending_events_;
  auto callback = [this, reached = std::move(reached)](const Outcome<TimePoint>& at) {
    --pending_events_;
    if (board_ != nullptr) board_->device_came_further(clock_.now());
    if (at.ok()) reached(at.value());
    else fail(at.error(), "on the device, at ");
  };
  watch.watch(std::move(event), [callbacks = callbacks_, wake = wake_,
                                 callback = std::move(callback)](const Outcome<TimePoint>& at) {
    callbacks->put([callback, at] { callback(at); });
    wake();
  });
}

void DeviceQueue::drain_events() {
  for (const CallbackQueue::QueuedCallback& callback : callbacks_->take()) callback();
}

void DeviceQueue::record_mark(const Mark& mark) {
  if (mark.kind == Mark::Kind::kBegin) ++actions_ahead_;
  on_done(compute_, copies_.computed, [this, mark](TimePoint at) {
    if (mark.kind == Mark::Kind::kBegin) --actions_ahead_;
    timeline_.reach(mark, at);
    // The next work is queued, or will be at once.
    if (mark.kind == Mark::Kind::kWaitEnds) timeline_.compute(at);
  });
}

void DeviceQueue::fill(std::span<std::byte> memory,
                       const std::function<void(std::span<std::byte>)>& read) {
  if (copies_.host_memory()) return read(memory);
  StagingPool::Block block = copies_.staging.take(memory.size());
  read(block.span());
  // Uses the compute stream, which would wait for the copy anyway. Large tensors could delay it on
  // the other stream.
  compute_.copy(block.span(), memory);
  batches_.push_back(std::move(block));
  on_done(compute_, copies_.computed,
          [this, at = batches_.size() - 1](TimePoint) { batches_[at] = {}; });
}

std::optional<std::span<const double>> DeviceQueue::sums_of_squares(
    std::span<const std::span<const float>> tensors) {
  if (squares_state_ == Squares::kNone) {
    squares_ = copies_.staging.take(tensors.size() * sizeof(double));
    compute_.sums_of_squares(tensors, as<double>(squares_));
    squares_state_ = Squares::kQueued;
    on_done(compute_, copies_.computed, [this](TimePoint) { squares_state_ = Squares::kDone; });
  }
  if (squares_state_ != Squares::kDone) return std::nullopt;
  return as<const double>(squares_);
}

void DeviceQueue::download_losses(std::span<const std::byte> from) {
  losses_ = copies_.staging.take(from.size());
  compute_.copy(from, losses_.span());
}

std::span<const float> DeviceQueue::losses() const { return as<const float>(losses_); }

void DeviceQueue::fail(const Error& error, std::string where) {
  if (!failure_) failure_ = {error, std::move(where)};
}

void DeviceQueue::expect_queued_work() {
  const auto expect_end = [&](const auto& stream, EventWatch& watch) {
    try {
      on_done(stream(), watch, [](TimePoint) {});
    } catch (...) {
      // A failed device that takes no more work touches no memory either.
      static_cast<void>(current_error());
    }
  };
  expect_end([&]() -> Stream& { return compute_; }, copies_.computed);
  if (copies_.host_memory()) return;
  expect_end([&]() -> Stream& { return copies_.out(); }, copies_.copied_out);
  expect_end([&]() -> Stream& { return copies_.in(); }, copies_.copied_in);
}

void DeviceQueue::synchronize() {
  compute_.synchronize();
  if (copies_.host_memory()) return;
  copies_.out().synchronize();
  copies_.in().synchronize();
}

}  // namespace weft::mesh
