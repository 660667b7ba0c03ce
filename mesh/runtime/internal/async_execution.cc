#include "mesh/runtime/internal/async_execution.h"

#include <array>
#include <tuple>
#include <utility>

#include "core/base/check.h"

namespace weft::mesh {
namespace {

template <typename T>
std::span<T> as(const StagingPool::Block& block) {
  return {reinterpret_cast<T*>(block.span().data()), block.span().size() / sizeof(T)};
}

}  // namespace

AsyncExecution::AsyncExecution(CopyEngine& copies, Stream& compute, std::size_t handles,
                               std::shared_ptr<Inbox> inbox, std::function<void()> wake)
    : copies_(copies),
      compute_(compute),
      inbox_(std::move(inbox)),
      wake_(std::move(wake)),
      staged_(handles) {}

void AsyncExecution::watch(std::shared_ptr<const Event> event, EventWatch& watch, Notice::Kind kind,
                           std::uint32_t index) {
  {
    const std::lock_guard lock(inbox_->mutex);
    ++inbox_->under_way;
  }
  ++under_way_;
  watch.watch(std::move(event),
              [inbox = inbox_, wake = wake_, kind, index](const Outcome<TimePoint>& at) {
                {
                  const std::lock_guard lock(inbox->mutex);
                  inbox->notices.push_back({kind, index, at});
                  if (--inbox->under_way == 0) inbox->idle.notify_all();
                }
                wake();
              });
}

std::shared_ptr<const Event> AsyncExecution::watch(Stream& stream, EventWatch& watch_of_it,
                                                   Notice::Kind kind, std::uint32_t index) {
  std::shared_ptr<const Event> event = stream.record();
  watch(event, watch_of_it, kind, index);
  return event;
}

void AsyncExecution::mark(const Mark& mark) {
  marks_.push_back(mark);
  if (mark.kind == Mark::Kind::kBegin) ++actions_ahead_;
  watch(compute_, copies_.computed, Notice::Kind::kMark, 0);
}

void AsyncExecution::stage(std::uint32_t handle, std::span<const std::byte> source,
                           std::span<std::byte> destination) {
  Staged& staged = staged_[handle];
  // What was queued before may still write the source, and read or write where the destination will
  // lie.
  const std::shared_ptr<const Event> computed = compute_.record();
  if (!destination.empty()) {
    staged.destination = copies_.staging.take(destination.size());
    staged.landing = destination;
    staged.free = computed;
    staged.host.destination = staged.destination.span();
  }
  if (!source.empty()) {
    const bool in_place =
        source.data() == destination.data() && source.size() == destination.size();
    if (!in_place) staged.source = copies_.staging.take(source.size());
    const std::span<std::byte> copy = in_place ? staged.destination.span() : staged.source.span();
    staged.host.source = copy;
    copies_.out->wait(*computed);
    copies_.out->copy(source, copy);
    watch(*copies_.out, copies_.copied_out, Notice::Kind::kCopiedOut, handle);
  }
}

bool AsyncExecution::land(std::uint32_t handle, const transfer::TransferReport& report) {
  Staged& staged = staged_[handle];
  staged.source = {};
  if (staged.landing.empty()) return false;
  staged.report = report;
  copies_.in->wait(*staged.free);
  copies_.in->copy(staged.destination.span(), staged.landing);
  staged.landed = watch(*copies_.in, copies_.copied_in, Notice::Kind::kLanded, handle);
  return true;
}

bool AsyncExecution::landed(std::uint32_t handle) const {
  return !staged_[handle].landed || staged_[handle].landed->done();
}

void AsyncExecution::await_landing(std::uint32_t handle) {
  if (staged_[handle].landed) compute_.wait(*staged_[handle].landed);
}

void AsyncExecution::upload(StagingPool::Block block, std::span<std::byte> to) {
  // On the compute stream: it would have to wait for the copy anyway, and large tensors may be in
  // the way on the other.
  compute_.copy(block.span(), to);
  batches_.push_back(std::move(block));
  watch(compute_, copies_.computed, Notice::Kind::kUploaded,
        static_cast<std::uint32_t>(batches_.size() - 1));
}

std::optional<std::span<const double>> AsyncExecution::sums_of_squares(
    std::span<const std::span<const float>> tensors) {
  if (squares_state_ == Squares::kNone) {
    squares_ = copies_.staging.take(tensors.size() * sizeof(double));
    compute_.sums_of_squares(tensors, as<double>(squares_));
    watch(compute_, copies_.computed, Notice::Kind::kSquares, 0);
    squares_state_ = Squares::kQueued;
  }
  if (squares_state_ != Squares::kDone) return std::nullopt;
  return as<const double>(squares_);
}

void AsyncExecution::download_losses(std::span<const std::byte> from) {
  losses_ = copies_.staging.take(from.size());
  compute_.copy(from, losses_.span());
}

std::span<const float> AsyncExecution::losses() const { return as<const float>(losses_); }

std::optional<transfer::TransferReport> AsyncExecution::take(const Notice& notice,
                                                             StepTimeline& timeline) {
  --under_way_;
  if (!notice.at.ok()) return std::nullopt;
  switch (notice.kind) {
    case Notice::Kind::kMark: {
      WEFT_CHECK(!marks_.empty());
      if (marks_.front().kind == Mark::Kind::kBegin) --actions_ahead_;
      timeline.reach(marks_.front(), notice.at.value());
      // The next piece of work is in the queue, or will be at once.
      if (marks_.front().kind == Mark::Kind::kGoOn) timeline.compute(notice.at.value());
      marks_.pop_front();
      break;
    }
    case Notice::Kind::kUploaded: batches_[notice.index] = {}; break;
    case Notice::Kind::kSquares: squares_state_ = Squares::kDone; break;
    case Notice::Kind::kLanded: {
      staged_[notice.index].destination = {};
      transfer::TransferReport report = *std::move(staged_[notice.index].report);
      report.finished = notice.at.value();
      return report;
    }
    case Notice::Kind::kCopiedOut:
    case Notice::Kind::kCollectiveBegun:
    case Notice::Kind::kCollectiveDone:
    case Notice::Kind::kSealed: break;
  }
  return std::nullopt;
}

void AsyncExecution::seal() {
  for (const auto& [stream, watch_of_it] :
       {std::pair(&compute_, &copies_.computed), std::pair(copies_.out.get(), &copies_.copied_out),
        std::pair(copies_.in.get(), &copies_.copied_in)}) {
    try {
      watch(*stream, *watch_of_it, Notice::Kind::kSealed, 0);
    } catch (...) {
      // A device that takes no more work touches no memory either.
      continue;
    }
  }
}

void AsyncExecution::synchronize() {
  compute_.synchronize();
  copies_.out->synchronize();
  copies_.in->synchronize();
}

}  // namespace weft::mesh
