#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "actors/call/pending.h"
#include "core/base/outcome.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Result of one of several operations, with the key by which its reader knows the operation: a
/// rank, or the index of an item.
struct Completion {
  std::size_t key = 0;
  Outcome<std::vector<std::byte>> result;   ///< Encoded.
  DecodeContext* decode_context = nullptr;  ///< Object to which handles in the result belong.
};

/// Queue of results, in the order in which the operations ended, for one reader at a time. It is
/// below streams, map() and first_of().
///
///   operations ── push() ──► [queue] ── next() ──► Pending, on which a Future waits ── take()
///
/// Shared by the reader and by the operations that are under way. Any thread.
class CompletionQueue : public std::enable_shared_from_this<CompletionQueue> {
 public:
  virtual ~CompletionQueue() = default;
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  /// Returns an operation that completes with the next result, or with none at the end. If it is
  /// cancelled or destroyed before take(), its result stays in the queue.
  std::shared_ptr<Pending> next();
  /// Returns the result of a finished next(); nullopt: all results have been taken. Throws
  /// Error(kCancelled) if that next() was cancelled.
  static std::optional<Completion> take(Pending& next);
  /// Cancels the operations that are under way. Their results are errors.
  virtual void cancel() = 0;

 protected:
  CompletionQueue() = default;
  void push(Completion completion) { insert(std::move(completion), false); }
  /// Ends the queue. Nothing may be pushed later.
  void close();
  /// Called when the reader has taken a result, on its thread.
  virtual void on_taken(const Completion& /*taken*/) {}

 private:
  class Next;
  void insert(Completion completion, bool at_front);

  Mutex mutex_;  // guards the members below
  std::deque<Completion> ready_;
  std::deque<std::weak_ptr<Next>> readers_;  // wait in this order
  bool closed_ = false;
};

}  // namespace weft::actors
