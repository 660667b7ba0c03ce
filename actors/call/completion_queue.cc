#include "actors/call/completion_queue.h"

#include <utility>

namespace weft::actors {

/// Wait for the next result.
class CompletionQueue::Next final : public Pending {
 public:
  explicit Next(std::shared_ptr<CompletionQueue> queue) : queue_(std::move(queue)) {}
  ~Next() override {
    if (completion_) queue_->insert(std::move(*completion_), true);
  }
  /// Takes a result, or the end of the queue. Returns false and leaves it if the wait was
  /// cancelled. finish() must follow, without the queue's lock.
  bool accept(std::optional<Completion>& completion) {
    if (!claim()) return false;
    completion_ = std::exchange(completion, std::nullopt);
    return true;
  }
  void finish() { publish(); }
  void cancel() override {
    if (!claim()) return;
    cancelled_ = true;
    publish();
  }
  std::optional<Completion> take() {
    if (cancelled_)
      throw Error(ErrorCode::kCancelled, "the wait for the next result was cancelled");
    auto completion = std::exchange(completion_, std::nullopt);
    if (completion) queue_->on_taken(*completion);
    return completion;
  }

 private:
  const std::shared_ptr<CompletionQueue> queue_;
  std::optional<Completion> completion_;
  bool cancelled_ = false;
};

std::shared_ptr<Pending> CompletionQueue::next() {
  auto next = std::make_shared<Next>(shared_from_this());
  {
    const std::lock_guard lock(mutex_);
    if (!ready_.empty()) {
      std::optional<Completion> first(std::move(ready_.front()));
      ready_.pop_front();
      (void)next->accept(first);
    } else if (closed_) {
      std::optional<Completion> none;
      (void)next->accept(none);
    } else {
      // Waits that ended early would else add up until the next result.
      std::erase_if(readers_, [](const auto& reader) { return reader.expired(); });
      readers_.push_back(next);
      return next;
    }
  }
  next->finish();
  return next;
}

std::optional<Completion> CompletionQueue::take(Pending& next) {
  return static_cast<Next&>(next).take();
}

void CompletionQueue::insert(Completion completion, bool at_front) {
  std::optional<Completion> entry(std::move(completion));
  // A reader may be destroyed here, which needs the lock: keeps those that were cancelled.
  std::vector<std::shared_ptr<Next>> cancelled;
  std::shared_ptr<Next> reader;
  {
    const std::lock_guard lock(mutex_);
    while (!readers_.empty()) {
      auto waiting = readers_.front().lock();
      readers_.pop_front();
      if (!waiting) continue;
      if (waiting->accept(entry)) {
        reader = std::move(waiting);
        break;
      }
      cancelled.push_back(std::move(waiting));
    }
    if (!reader && at_front) ready_.push_front(std::move(*entry));
    if (!reader && !at_front) ready_.push_back(std::move(*entry));
  }
  if (reader) reader->finish();
}

void CompletionQueue::close() {
  std::deque<std::weak_ptr<Next>> readers;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    readers.swap(readers_);
  }
  std::optional<Completion> none;
  for (const auto& each : readers)
    if (const auto reader = each.lock(); reader && reader->accept(none)) reader->finish();
}

}  // namespace weft::actors
