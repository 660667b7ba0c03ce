#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "actors/call/completion_queue.h"

namespace weft::actors {

/// Queue of the results of calls that have been made, one per call, in the order in which they
/// arrive. Keys: indexes of the calls. Any thread.
class CallStream final : public CompletionQueue {
 public:
  static std::shared_ptr<CallStream> make(std::vector<std::shared_ptr<CallState>> calls);
  void cancel() override;

 private:
  explicit CallStream(std::vector<std::shared_ptr<CallState>> calls)
      : calls_(std::move(calls)), left_(calls_.size()) {}
  void call_done(std::size_t index);

  const std::vector<std::shared_ptr<CallState>> calls_;
  std::atomic<std::size_t> left_;
};

}  // namespace weft::actors
