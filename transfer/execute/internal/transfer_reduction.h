#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transfer/execute/internal/strided_view.h"
#include "transfer/execute/internal/transfer_buffers.h"
#include "transfer/execute/slot_pool.h"
#include "transfer/flow/device_part.h"

namespace weft::transfer {

/// Reduction of an ActiveTransfer on this device: counts the terms of each chunk, and sums them in
/// rank order.
///
/// Belongs to one ActiveTransfer. Transfer thread only.
class TransferReduction final {
 public:
  /// All arguments outlive the reduction. The part has one tensor.
  TransferReduction(SlotPool& slots, const DevicePart& part, const TransferBuffers& buffers,
                    const Reduction& reduction);

  std::uint32_t num_chunks() const { return static_cast<std::uint32_t>(reduced_.size()); }
  std::uint32_t num_ranks() const { return reduction_->num_ranks; }
  std::uint32_t own_rank() const { return reduction_->own_rank; }

  /// Sets the stream by which the terms of `rank` arrive.
  void set_term_stream(std::uint32_t rank, std::uint32_t stream) {
    term_streams_.at(rank) = stream;
  }
  /// Returns the stream of each rank's terms; unused for the own rank.
  std::span<const std::uint32_t> term_streams() const { return term_streams_; }
  /// Adds a stream that sends the result.
  void add_result_stream(std::uint32_t stream) { result_streams_.push_back(stream); }
  std::span<const std::uint32_t> result_streams() const { return result_streams_; }

  /// Returns true if a term of a chunk may be received: at most `window` chunks are incomplete.
  bool admits(std::uint32_t chunk, std::uint32_t window) const { return chunk < prefix_ + window; }
  /// Counts a term of a chunk. Returns true if it was the last one.
  bool count_term(std::uint32_t chunk) { return ++arrived_[chunk] == reduction_->num_ranks - 1; }
  /// Reduces a chunk into the destination. Sets the own term of `terms`, which holds the others by
  /// rank.
  void reduce(std::uint32_t chunk, std::span<const std::byte*> terms);

 private:
  SlotPool* slots_;
  const DevicePart* part_;
  const TransferBuffers* buffers_;
  const Reduction* reduction_;
  StridedView source_, destination_;
  std::vector<std::uint32_t> arrived_;  // number of terms per chunk
  std::vector<std::uint32_t> term_streams_;
  std::vector<std::uint32_t> result_streams_;
  std::uint32_t prefix_ = 0;  // number of leading chunks that are all reduced
  std::vector<bool> reduced_;
};

}  // namespace weft::transfer
