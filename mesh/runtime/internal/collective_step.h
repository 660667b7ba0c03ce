#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "mesh/program/program.h"
#include "mesh/runtime/collective_engine.h"
#include "mesh/runtime/internal/async_execution.h"

namespace weft::mesh {

/// What one execution has under way by device collectives.
///
///   start: compute ──event──▶ queue, which begins it in its turn ──notices──▶ its begin and end
///   wait:  queue ──event──▶ compute; the host goes on
///
/// Owner's thread only.
class CollectiveStep final {
 public:
  /// Begins an execution of the queue. All must outlive it.
  CollectiveStep(CollectiveEngine& engine, const Program& program, AsyncExecution& device);

  /// The transfer may go ahead when `compute` has come here. Buffers as Start names them.
  void start(const Start& start, std::span<const std::byte> source,
             std::span<std::byte> destination, Stream& compute);
  /// Whether compute may use the buffers without waiting.
  bool done(std::uint32_t handle) const { return engine_.queue.done(key_of_handle_[handle]); }
  /// Lets compute wait for the transfer.
  void await(std::uint32_t handle, Stream& compute) {
    engine_.queue.wait(key_of_handle_[handle], compute);
  }

  void began(std::uint32_t handle, TimePoint at) { began_[handle] = at; }
  transfer::TransferReport report(const Start& start, TimePoint ended) const;

  /// To be called now and then: throws the error of the queue, with the names of what is under way.
  void poll();
  /// Some of what was started is not done.
  bool busy() const { return !engine_.queue.idle(); }
  /// What the device stands at.
  std::optional<transfer::OperationKey> current() const { return engine_.queue.current(); }
  /// "'h1.out front->back' of microbatch 3, then 2 more"; empty if nothing is.
  std::string under_way() const;

 private:
  /// The error of the queue, which knows no names, with what the device is at; `otherwise` where
  /// nothing is under way.
  Error named(const Error& error, const std::string& otherwise) const;

  CollectiveEngine& engine_;
  const Program& program_;
  AsyncExecution& device_;
  std::map<transfer::OperationKey, std::uint32_t> handle_of_key_;
  std::vector<transfer::OperationKey> key_of_handle_;
  std::vector<std::uint32_t> transfer_of_handle_;
  std::vector<TimePoint> began_;  ///< By handle.
  std::size_t watched_ = 0;       ///< Of those on the stream.
};

}  // namespace weft::mesh
