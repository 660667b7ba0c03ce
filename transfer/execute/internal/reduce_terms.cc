#include "transfer/execute/internal/reduce_terms.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/check.h"

namespace weft::transfer {
namespace {

// Blocks stay in the first-level cache. The block is summed apart, because `out` may be one of the later terms.
constexpr std::size_t kBlock = 1024;

template <typename T>
void reduce(ReduceOp op, std::span<const std::byte* const> terms, std::span<std::byte> out) {
  const std::size_t count = out.size() / sizeof(T);
  std::array<T, kBlock> sum, term;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    std::memcpy(sum.data(), terms[0] + begin * sizeof(T), size * sizeof(T));
    for (std::size_t rank = 1; rank < terms.size(); ++rank) {
      std::memcpy(term.data(), terms[rank] + begin * sizeof(T), size * sizeof(T));
      if (op == ReduceOp::kSum) {
        for (std::size_t i = 0; i < size; ++i) sum[i] += term[i];
      } else {
        for (std::size_t i = 0; i < size; ++i) sum[i] = std::max(sum[i], term[i]);
      }
    }
    std::memcpy(out.data() + begin * sizeof(T), sum.data(), size * sizeof(T));
  }
}

}  // namespace

void reduce_terms(DType dtype, ReduceOp op, std::span<const std::byte* const> terms, std::span<std::byte> out) {
  WEFT_CHECK(!terms.empty());
  switch (dtype) {
    case DType::kF32: return reduce<float>(op, terms, out);
    case DType::kF64: return reduce<double>(op, terms, out);
    case DType::kI32: return reduce<std::int32_t>(op, terms, out);
    case DType::kU8: break;
  }
  WEFT_CHECK(false, "cannot reduce {}", to_string(dtype));
}

}  // namespace weft::transfer
