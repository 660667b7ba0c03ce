#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "mesh/runtime/collective_stream.h"
#include "mesh/runtime/internal/device_queue.h"
#include "mesh/runtime/internal/transfer_executor.h"

namespace weft::mesh {

/// Transfers of one execution that the GPUs' collective library carries.
///
///   start: compute ──event──▶ queue, which begins it in its turn ──events──▶ its begin and end
///   wait:  queue ──event──▶ compute; the host does not block
///
/// Owner's thread only.
class CollectiveTransfers final : public TransferExecutor {
 public:
  /// Begins an execution of the queue. All references must outlive it.
  CollectiveTransfers(CollectiveStream& library, const Program& program, DeviceQueue& device,
                      std::uint64_t epoch);

  bool start(const Start& start, std::span<std::byte> source,
             std::span<std::byte> destination) override;
  bool done(std::uint32_t handle) const override { return queue_.done(keys_[handle]); }
  bool wait(std::uint32_t handle) override {
    queue_.wait(keys_[handle], device_.compute());
    return true;
  }
  /// Throws the queue's error, with the names of running transfers.
  void poll() override;
  bool wants_polling() const override { return !queue_.idle(); }
  void cancel(const Error& why) override;
  std::optional<transfer::OperationKey> position() const override { return queue_.current(); }
  std::string describe_position() const override;

 private:
  const Transfer& transfer_of(std::uint32_t handle) const {
    return program_.transfers[starts_[handle]->transfer];
  }
  void watch(const transfer::OperationKey& key);
  /// Returns names such as "'h1.out front->back' of microbatch 3, then 2 more"; "" if nothing is
  /// running.
  std::string current_operations() const;
  /// Adds the names of running transfers to an error of the queue, or `otherwise` if there are
  /// none.
  Error named(const Error& error, const std::string& otherwise) const;

  transfer::CollectiveQueue& queue_;
  EventWatch& stream_events_;
  const Program& program_;
  DeviceQueue& device_;
  const std::uint64_t epoch_;
  std::map<transfer::OperationKey, std::uint32_t> handles_;
  std::vector<transfer::OperationKey> keys_;  ///< Keys by handle.
  std::vector<const Start*> starts_;  ///< Starts by handle; null for those of other executors.
  std::vector<TimePoint> began_;      ///< Begin times by handle.
  std::size_t watched_ = 0;           ///< Number of transfers on the stream that are watched.
};

}  // namespace weft::mesh
