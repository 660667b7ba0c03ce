#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor/dtype.h"

// Parameters of the kernels: plain data, so that CUDA's compiler sees few of Weft's headers.
// Streams are cudaStream_t.
namespace weft::transfer {

/// Copy of a box of bytes: runs, repeated over up to four dimensions, outermost first.
struct BoxCopy {
  static constexpr std::size_t kDimensions = 4;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint64_t run_bytes = 0;
  std::uint64_t bytes = 0;  ///< Total of all runs.
  std::uint32_t dimensions = 0;
  /// Unit of the copy: 1, 2, 4, 8 or 16 bytes. It divides all addresses, runs and strides.
  std::uint32_t unit = 1;
  std::uint64_t count[kDimensions] = {};
  std::uint64_t from_stride[kDimensions] = {};
  std::uint64_t to_stride[kDimensions] = {};
};

/// Parameters of one launch, at most 4 KiB.
struct BoxCopies {
  static constexpr std::size_t kMaxCopies = 24;
  std::uint32_t count = 0;
  BoxCopy copy[kMaxCopies];
};
static_assert(sizeof(BoxCopies) <= 4096);

/// Launches the kernel of strided_copy.cu.
void launch_copies(const BoxCopies& copies, void* stream);

struct SumTerms {
  static constexpr std::size_t kMaxTerms = 256;
  std::uint32_t count = 0;
  const void* term[kMaxTerms] = {};
};

/// Launches to[i] = terms[0][i] + terms[1][i] + ..., see ordered_sum.cu. Throws
/// Error(kInvalidArgument) for u8.
void launch_sum(DType dtype, const SumTerms& terms, std::uint64_t count, void* to, void* stream);

}  // namespace weft::transfer
