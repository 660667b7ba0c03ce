#include "transfer/execute/internal/reduce_terms.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "core/base/check.h"
#include "core/tensor/bfloat16.h"

namespace weft::transfer {
namespace {

// Elements per block. A block stays in the L1 cache. It is summed separately, because `out` may be
// one of the later terms. The constant length lets the compiler vectorize.
constexpr std::size_t kBlock = 1024;

template <typename T, ReduceOp op>
void accumulate(std::array<T, kBlock>& sum, const std::array<T, kBlock>& term) {
  for (std::size_t i = 0; i < kBlock; ++i) {
    if constexpr (op == ReduceOp::kSum) sum[i] += term[i];
    else sum[i] = sum[i] < term[i] ? term[i] : sum[i];
  }
}

/// Type in which elements of type T are accumulated.
template <typename T>
struct SumOf {
  using Type = T;
};
template <>
struct SumOf<BFloat16> {
  using Type = float;
};

/// Copies `count` elements into a block.
template <typename T>
void load(const std::byte* from, std::size_t count,
          std::array<typename SumOf<T>::Type, kBlock>& to) {
  if constexpr (std::is_same_v<typename SumOf<T>::Type, T>) {
    std::memcpy(to.data(), from, count * sizeof(T));
  } else {
    std::array<T, kBlock> stored;
    std::memcpy(stored.data(), from, count * sizeof(T));
    convert(std::span<const T>(stored).first(count), std::span(to).first(count));
  }
}
template <typename T>
void store(const std::array<typename SumOf<T>::Type, kBlock>& from, std::size_t count,
           std::byte* to) {
  if constexpr (std::is_same_v<typename SumOf<T>::Type, T>) {
    std::memcpy(to, from.data(), count * sizeof(T));
  } else {
    std::array<T, kBlock> stored;
    convert(std::span(from).first(count), std::span<T>(stored).first(count));
    std::memcpy(to, stored.data(), count * sizeof(T));
  }
}

template <typename T, ReduceOp op>
void reduce(std::span<const std::byte* const> terms, std::span<std::byte> out) {
  using Sum = typename SumOf<T>::Type;
  const std::size_t count = out.size() / sizeof(T);
  std::array<Sum, kBlock> sum, term;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    if (size < kBlock) {  // last block: the padding is added too and must hold numbers
      sum.fill(Sum{});
      term.fill(Sum{});
    }
    load<T>(terms[0] + begin * sizeof(T), size, sum);
    for (std::size_t rank = 1; rank < terms.size(); ++rank) {
      load<T>(terms[rank] + begin * sizeof(T), size, term);
      accumulate<Sum, op>(sum, term);
    }
    store<T>(sum, size, out.data() + begin * sizeof(T));
  }
}

template <typename T>
void reduce(ReduceOp op, std::span<const std::byte* const> terms, std::span<std::byte> out) {
  if (op == ReduceOp::kSum) reduce<T, ReduceOp::kSum>(terms, out);
  else reduce<T, ReduceOp::kMax>(terms, out);
}

}  // namespace

void reduce_terms(DType dtype, ReduceOp op, std::span<const std::byte* const> terms,
                  std::span<std::byte> out) {
  WEFT_CHECK(!terms.empty());
  switch (dtype) {
    case DType::kF32: return reduce<float>(op, terms, out);
    case DType::kF64: return reduce<double>(op, terms, out);
    case DType::kI32: return reduce<std::int32_t>(op, terms, out);
    case DType::kBF16: return reduce<BFloat16>(op, terms, out);
    case DType::kU8: break;
  }
  WEFT_CHECK(false, "cannot reduce {}", to_string(dtype));
}

}  // namespace weft::transfer
