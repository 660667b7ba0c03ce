#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weft::transfer {

/// Buffers of a transfer, one per tensor of its part on each side. Empty where the device has
/// nothing. A value; borrows the memory.
struct TransferBuffers {
  TransferBuffers(std::vector<std::span<const std::byte>> from,
                  std::vector<std::span<std::byte>> to)
      : sources(std::move(from)),
        destinations(std::move(to)),
        readable_destinations(destinations.begin(), destinations.end()) {}

  std::vector<std::span<const std::byte>> sources;
  std::vector<std::span<std::byte>> destinations;
  std::vector<std::span<const std::byte>> readable_destinations;  ///< The same as `destinations`.

  /// Returns true if source and destination of a tensor are the same memory.
  bool in_place(std::uint32_t tensor) const {
    return !sources[tensor].empty() && sources[tensor].data() == destinations[tensor].data();
  }
};

}  // namespace weft::transfer
