#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "mesh/runtime/internal/device_queue.h"
#include "mesh/runtime/internal/transfer_executor.h"
#include "mesh/runtime/library_queue.h"

namespace weft::mesh {

/// The transfers of one execution that the library of the GPUs carries.
///
///   start: compute ──event──▶ queue, which begins it in its turn ──events──▶ its begin and end
///   wait:  queue ──event──▶ compute; the host goes on
///
/// Owner's thread only.
class LibraryTransfers final : public TransferExecutor {
 public:
  /// Begins an execution of the queue. All must outlive it.
  LibraryTransfers(LibraryQueue& library, const Program& program, DeviceQueue& device,
                   std::uint64_t epoch);

  bool start(const Start& start, std::span<std::byte> source,
             std::span<std::byte> destination) override;
  bool done(std::uint32_t handle) const override { return queue_.done(keys_[handle]); }
  bool wait(std::uint32_t handle) override {
    queue_.wait(keys_[handle], device_.compute());
    return true;
  }
  /// The error has the names of what is under way.
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
  /// "'h1.out front->back' of microbatch 3, then 2 more"; empty if nothing is under way.
  std::string under_way() const;
  /// The error of the queue, which knows no names, with what the device is at; `otherwise` where
  /// nothing is under way.
  Error named(const Error& error, const std::string& otherwise) const;

  transfer::CollectiveQueue& queue_;
  EventWatch& passed_;
  const Program& program_;
  DeviceQueue& device_;
  const std::uint64_t epoch_;
  std::map<transfer::OperationKey, std::uint32_t> handles_;
  std::vector<transfer::OperationKey> keys_;  ///< By handle.
  std::vector<const Start*> starts_;          ///< By handle; null for those of other executors.
  std::vector<TimePoint> began_;              ///< By handle.
  std::size_t watched_ = 0;                   ///< Of those on the stream.
};

}  // namespace weft::mesh
