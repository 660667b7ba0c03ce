#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "actors/call/completion_queue.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Queue of the values of generators that have been called, in the order in which they arrive: any
/// number of values per call, and at last the error of a call that fails. Keys: indexes of the
/// calls. Tells the generators what the reader has taken. Any thread.
class ValueQueue final : public CompletionQueue, public ValueReader {
 public:
  /// Makes a call, whose values go to the sink.
  using MakeCall =
      std::function<std::shared_ptr<CallState>(std::size_t index, const ValueSink& sink)>;
  static std::shared_ptr<ValueQueue> make(std::size_t calls, const MakeCall& call);
  void cancel() override;
  void on_values(const CallState& call, std::vector<std::vector<std::byte>> values) override;

 private:
  /// Call of a generator, and what the reader has taken of its values.
  struct Stream {
    std::shared_ptr<CallState> call;
    bool ended = false;
    std::uint64_t received_values = 0;
    std::uint64_t taken_values = 0, taken_bytes = 0;
    std::uint64_t reported_values = 0, reported_bytes = 0;
  };
  explicit ValueQueue(std::size_t calls) : streams_(calls), left_(calls) {}
  void call_done(std::size_t index);
  void on_taken(const Completion& taken) override;

  // Guards the members below, and orders pushes: no value follows the end of its call.
  Mutex mutex_;
  std::vector<Stream> streams_;
  std::size_t left_;  // calls that have not ended
};

}  // namespace weft::actors
