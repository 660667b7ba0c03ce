#include "transfer/execute/internal/reduce_terms.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/check.h"

namespace weft::transfer {
namespace {

// A block stays in the first-level cache. It is summed apart, because `out` may be one of the later terms; and its length is a
// constant, which lets the compiler use vector instructions.
constexpr std::size_t kBlock = 1024;

template <typename T, ReduceOp op>
void accumulate(std::array<T, kBlock>& sum, const std::array<T, kBlock>& term) {
  for (std::size_t i = 0; i < kBlock; ++i) {
    if constexpr (op == ReduceOp::kSum) sum[i] += term[i];
    else sum[i] = sum[i] < term[i] ? term[i] : sum[i];
  }
}

template <typename T, ReduceOp op>
void reduce(std::span<const std::byte* const> terms, std::span<std::byte> out) {
  const std::size_t count = out.size() / sizeof(T);
  std::array<T, kBlock> sum, term;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t bytes = std::min(kBlock, count - begin) * sizeof(T);
    if (bytes < sizeof(sum)) {  // the last block: what lies behind it is added too, and must be numbers
      sum.fill(T{});
      term.fill(T{});
    }
    std::memcpy(sum.data(), terms[0] + begin * sizeof(T), bytes);
    for (std::size_t rank = 1; rank < terms.size(); ++rank) {
      std::memcpy(term.data(), terms[rank] + begin * sizeof(T), bytes);
      accumulate<T, op>(sum, term);
    }
    std::memcpy(out.data() + begin * sizeof(T), sum.data(), bytes);
  }
}

template <typename T>
void reduce(ReduceOp op, std::span<const std::byte* const> terms, std::span<std::byte> out) {
  if (op == ReduceOp::kSum) reduce<T, ReduceOp::kSum>(terms, out);
  else reduce<T, ReduceOp::kMax>(terms, out);
}

}  // namespace

void reduce_terms(DType dtype, ReduceOp op, std::span<const std::byte* const> terms, std::span<std::byte> out) {
  WEFT_CHECK(!terms.empty());
  switch (dtype) {
    case DType::kF32: return reduce<float>(op, terms, out);
    case DType::kF64: return reduce<double>(op, terms, out);
    case DType::kI32: return reduce<std::int32_t>(op, terms, out);
    case DType::kBF16:
    case DType::kU8: break;
  }
  WEFT_CHECK(false, "cannot reduce {}", to_string(dtype));
}

}  // namespace weft::transfer
