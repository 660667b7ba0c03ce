#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::bench {

/// What one side of the benchmark is told on its command line.
struct SideOptions {
  std::uint32_t self = 0;                   ///< 0 or 1.
  int channel = -1;                         ///< A socket to the other side that no link carries.
  std::vector<std::string> addresses;       ///< Of the two hosts.
  double bytes_per_second = 0;              ///< Payload that a link carries each way.
  std::vector<std::uint64_t> tensor_bytes;  ///< Sizes to measure.
  double seconds = 2;                       ///< Of a full link, about, for each figure.
  int repeat = 3;                           ///< Medians of so many.
  bool json = false;
};

/// Measures with the other side, which does the same at the same time; side 0 prints. Throws Error.
void run_side(const SideOptions& options);

}  // namespace weft::bench
