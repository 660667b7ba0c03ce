#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "actors/call/completion_queue.h"
#include "actors/call/future.h"

namespace weft::actors {

/// Queue of the operations of some Futures that are done. Keys: indexes of the Futures. Any thread.
class FirstDone final : public CompletionQueue {
 public:
  /// Throws Error(kInvalidArgument) if there are none, or if one has been moved from.
  static std::shared_ptr<FirstDone> make(const std::vector<std::shared_ptr<Pending>>& operations);
  ~FirstDone() override;
  /// Leaves the operations as they are: their Futures stay usable.
  void cancel() override {}
  /// Returns a Future of the index of the operation that is done first. It alone keeps `first`.
  static Future<std::size_t> index_of(const std::shared_ptr<FirstDone>& first);

  template <typename R>
  static const std::shared_ptr<Pending>& operation_of(const Future<R>& future) {
    return future.pending_;
  }

 private:
  explicit FirstDone(const std::vector<std::shared_ptr<Pending>>& operations)
      : operations_(operations.begin(), operations.end()) {}

  // Weak: a dropped next() of a stream must return its result to the stream.
  const std::vector<std::weak_ptr<Pending>> operations_;
};

/// Returns a Future of the index of the first Future that is done, with a result or an error; the
/// lowest one if several are. All Futures stay usable, and none is cancelled. One whose result has
/// been taken counts as done, so remove it before the next call. Keep the Futures meanwhile: a
/// stream's next() that is destroyed is left out.
///
///   const std::size_t index = first_of(reports).get();
///   use(reports[index].get());             // in a handler: co_await std::move(reports[index])
///   reports.erase(reports.begin() + index);
///
/// Throws Error(kInvalidArgument) if there are no Futures. Any thread.
template <typename R>
Future<std::size_t> first_of(const std::vector<Future<R>>& futures) {
  std::vector<std::shared_ptr<Pending>> operations;
  operations.reserve(futures.size());
  for (const auto& future : futures) operations.push_back(FirstDone::operation_of(future));
  return FirstDone::index_of(FirstDone::make(operations));
}
/// Like first_of() of a vector, for Futures of several types.
template <typename R, typename... Rs>
Future<std::size_t> first_of(const Future<R>& future, const Future<Rs>&... others) {
  return FirstDone::index_of(
      FirstDone::make({FirstDone::operation_of(future), FirstDone::operation_of(others)...}));
}

}  // namespace weft::actors
