#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::bench {

/// Command-line options of one side of the benchmark.
struct SideOptions {
  std::uint32_t self = 0;                   ///< 0 or 1.
  int channel = -1;                         ///< Socket to the other side, beside the link.
  std::vector<std::string> addresses;       ///< Addresses of the two hosts.
  double bytes_per_second = 0;              ///< Payload rate of the link in each direction.
  std::vector<std::uint64_t> tensor_bytes;  ///< Sizes to measure.
  double seconds = 2;                       ///< Approximate time per measurement.
  int repeat = 3;                           ///< Number of measurements behind each median.
  bool json = false;
};

/// Measures together with the other side, which runs the same code. Side 0 prints. Throws Error.
void run_side(const SideOptions& options);

}  // namespace weft::bench
