#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "actors/call/completion_queue.h"
#include "actors/call/future.h"
#include "core/base/check.h"

namespace weft::actors {

/// Result that a stream gives. `key`: the rank in the mesh or slice that was called, or the index
/// of the item of map().
template <typename R>
struct StreamedResult {
  std::size_t key = 0;
  Outcome<R> result;
};

/// Results of several calls, in the order in which they arrive; of generators several per call.
/// Move-only.
///
///   for (auto&& [rank, result] : pool.stream<&Worker::work>(batch)) use(rank, result);  // blocks
///   while (auto next = co_await stream.next()) use(next->key, next->result);  // in handlers
///   for (auto&& line : reader.stream<&Reader::lines>("a.txt")) use(line.value());  // one actor
///
/// `E`: what it gives, StreamedResult<R>, or Outcome<R> where there is one call.
/// Destroying the stream cancels the calls that are under way. Any thread may use it, one at a
/// time; the System must be alive.
template <typename R, typename E = StreamedResult<R>>
class [[nodiscard]] ResultStream final {
 public:
  using Entry = E;
  explicit ResultStream(std::shared_ptr<CompletionQueue> queue) : queue_(std::move(queue)) {}
  ~ResultStream() { cancel(); }
  ResultStream(ResultStream&&) noexcept = default;
  ResultStream& operator=(ResultStream&& other) noexcept {
    if (this == &other) return *this;
    const ResultStream former(std::move(*this));  // cancels its calls
    queue_ = std::move(other.queue_);
    return *this;
  }

  /// Returns the next result, or nothing after the last one. Cancelling that Future ends the wait
  /// only, and loses no result.
  Future<std::optional<Entry>> next() {
    WEFT_CHECK(queue_, "a ResultStream that was moved from is read");
    return Future<std::optional<Entry>>(queue_->next(), [](Pending& next) -> std::optional<Entry> {
      auto completion = CompletionQueue::take(next);
      if (!completion) return std::nullopt;
      auto result = decode_outcome<R>(completion->result, completion->decode_context);
      if constexpr (std::is_same_v<Entry, Outcome<R>>) return result;
      else return Entry{completion->key, std::move(result)};
    });
  }
  /// Cancels the calls that are under way, and makes no more. Their results, which are errors,
  /// still come.
  void cancel() {
    if (queue_) queue_->cancel();
  }

  /// Iterator of a range-for, which blocks until the next result is there.
  class Iterator final {
   public:
    explicit Iterator(ResultStream& stream) : stream_(&stream) { ++*this; }
    Entry& operator*() { return *entry_; }
    Iterator& operator++() {
      auto next = stream_->next().get();
      entry_.reset();
      if (next) entry_.emplace(std::move(*next));
      return *this;
    }
    friend bool operator==(const Iterator& at, std::default_sentinel_t) { return !at.entry_; }

   private:
    ResultStream* stream_;
    std::optional<Entry> entry_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() { return {}; }

 private:
  std::shared_ptr<CompletionQueue> queue_;  // shared with the calls that are under way
};

}  // namespace weft::actors
