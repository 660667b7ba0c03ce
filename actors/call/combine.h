#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Operations that combine encoded results. kListed: the function of reduce_with.
enum class ReduceOperation : std::uint8_t { kSum, kMin, kMax, kListed };

/// Replaces an encoded result of a method by its combination with another; `left` is of the lower
/// ranks. Throws Error(kInvalidArgument) if they do not fit, and what a listed function throws;
/// `left` is unchanged then.
using CombineResults = void (*)(ReduceOperation operation, std::vector<std::byte>& left,
                                std::span<const std::byte> right, DecodeContext* context);

/// Operations of MeshRef::reduce(). Vectors and arrays are combined element by element. A NaN makes
/// the result NaN. A sum of integers that overflows is an error.
enum Sum : std::uint8_t { sum };  // enumerators, as a local variable may have the same name
enum Min : std::uint8_t { min };
enum Max : std::uint8_t { max };
/// The sum divided by the number of actors; of integers: a double.
enum Mean : std::uint8_t { mean };
/// Operation that is a static function `R combine(R, R)`, which the method's endpoint lists:
///   on<&Worker::words>("words", reduce_with<&Worker::merge>)
///   pool.reduce<&Worker::words>(reduce_with<&Worker::merge>, text)
template <auto Function>
struct ReduceWith {};
template <auto Function>
inline constexpr ReduceWith<Function> reduce_with{};

namespace internal {

template <typename T>
inline constexpr bool is_number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

/// Encoding of results that are combined element by element: a count, if the number of elements is
/// not fixed, and the elements.
template <typename R>
struct Elements {
  static constexpr bool kReducible = is_number<R>;
  using Element = R;
  static constexpr bool kCounted = false;
  using Mean = std::conditional_t<std::is_floating_point_v<R>, R, double>;
};
template <typename T>
struct Elements<std::vector<T>> {
  static constexpr bool kReducible = is_number<T>;
  using Element = T;
  static constexpr bool kCounted = true;
  using Mean = std::vector<std::conditional_t<std::is_floating_point_v<T>, T, double>>;
};
template <typename T, std::size_t N>
struct Elements<std::array<T, N>> {
  static constexpr bool kReducible = is_number<T>;
  using Element = T;
  static constexpr bool kCounted = false;
  using Mean = std::array<std::conditional_t<std::is_floating_point_v<T>, T, double>, N>;
};
template <>
struct Elements<void> {
  static constexpr bool kReducible = false;
  using Mean = void;
};

/// Divides each number of a sum.
template <typename R>
typename Elements<R>::Mean divide(const R& total, std::size_t count) {
  using Result = typename Elements<R>::Mean;
  if constexpr (is_number<R>) {
    return static_cast<Result>(total) / static_cast<Result>(count);
  } else {
    Result result{};
    if constexpr (Elements<R>::kCounted) result.resize(total.size());
    for (std::size_t i = 0; i < total.size(); ++i) result[i] = divide(total[i], count);
    return result;
  }
}

/// Chooses the one of two numbers that comes first by `Before`; a NaN comes before all. A function
/// object, so that combine_elements() becomes a loop of vector instructions.
template <typename Before>
struct First {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      if (std::isnan(b)) return b;
    return Before()(b, a) ? b : a;
  }
};

/// Replaces each element of `left`, which may be unaligned, by its combination with that of
/// `right`. Both have the same size.
template <typename T, typename Operation>
void combine_elements(std::span<std::byte> left, std::span<const std::byte> right,
                      Operation operation) {
  for (std::size_t at = 0; at < left.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, left.data() + at, sizeof(T));
    std::memcpy(&b, right.data() + at, sizeof(T));
    a = operation(a, b);
    std::memcpy(left.data() + at, &a, sizeof(T));
  }
}

/// Throws if a sum of integers overflows. Both sides have the same size.
template <typename T>
void check_sums(std::span<const std::byte> left, std::span<const std::byte> right) {
  if constexpr (!std::is_floating_point_v<T>) {
    bool overflows = false;
    for (std::size_t at = 0; at < left.size(); at += sizeof(T)) {
      T a, b, total;
      std::memcpy(&a, left.data() + at, sizeof(T));
      std::memcpy(&b, right.data() + at, sizeof(T));
      overflows |= __builtin_add_overflow(a, b, &total);
    }
    if (overflows)
      throw_error(ErrorCode::kInvalidArgument,
                  "a sum is above the largest number of {} bits, or below the lowest; let the "
                  "method return a wider type",
                  8 * sizeof(T));
  }
}

/// Returns the bytes of the elements of an encoded R.
template <typename R>
std::span<const std::byte> elements_of(std::span<const std::byte> encoded) {
  ByteReader reader(encoded);
  std::size_t bytes = sizeof(typename Elements<R>::Element);
  if constexpr (Elements<R>::kCounted) bytes *= reader.read_count(bytes);
  else bytes = codec<R>::kMinBytes;
  const auto elements = reader.read_bytes(bytes);
  reader.expect_end();
  return elements;
}

template <typename R>
void combine_numbers(ReduceOperation operation, std::vector<std::byte>& left,
                     std::span<const std::byte> right) {
  using T = typename Elements<R>::Element;
  const auto mine = elements_of<R>(left);
  const auto theirs = elements_of<R>(right);
  if (mine.size() != theirs.size())
    throw_error(ErrorCode::kInvalidArgument,
                "they have {} and {} elements; let the method return the same number on all ranks, "
                "or list it with reduce_with",
                mine.size() / sizeof(T), theirs.size() / sizeof(T));
  const std::span<std::byte> into(left.data() + (mine.data() - left.data()), mine.size());
  if (operation == ReduceOperation::kSum) {
    check_sums<T>(into, theirs);
    combine_elements<T>(into, theirs, [](T a, T b) { return static_cast<T>(a + b); });
  } else if (operation == ReduceOperation::kMin) {
    combine_elements<T>(into, theirs, First<std::less<>>());
  } else {
    combine_elements<T>(into, theirs, First<std::greater<>>());
  }
}

/// CombineResults of methods with result R. `Function`: the one of reduce_with; null: none.
template <typename R, auto Function = nullptr>
void combine_results(ReduceOperation operation, std::vector<std::byte>& left,
                     std::span<const std::byte> right, DecodeContext* context) {
  if constexpr (!std::is_null_pointer_v<decltype(Function)>) {
    if (operation == ReduceOperation::kListed) {
      left = encode<R>(Function(decode<R>(left, context), decode<R>(right, context)));
      return;
    }
  }
  if constexpr (Elements<R>::kReducible)
    if (operation != ReduceOperation::kListed) return combine_numbers<R>(operation, left, right);
  throw_error(ErrorCode::kInternal, "no function combines these results");
}

/// Function in the options of an endpoint: CombineResults of a ReduceWith; null for others.
template <typename R, typename Option>
struct ListedCombine {
  static constexpr CombineResults kFunction = nullptr;
};
template <typename R, auto Function>
struct ListedCombine<R, ReduceWith<Function>> {
  static_assert(std::is_invocable_r_v<R, decltype(Function), R, R>,
                "reduce_with takes a static function `R combine(R, R)` of the method's result R");
  static constexpr CombineResults kFunction = &combine_results<R, Function>;
};

template <typename Option>
inline constexpr bool is_reduce_with = false;
template <auto Function>
inline constexpr bool is_reduce_with<ReduceWith<Function>> = true;

template <typename Operation>
constexpr ReduceOperation reduce_operation() {
  if constexpr (std::is_same_v<Operation, Min>) return ReduceOperation::kMin;
  else if constexpr (std::is_same_v<Operation, Max>) return ReduceOperation::kMax;
  else if constexpr (is_reduce_with<Operation>) return ReduceOperation::kListed;
  else return ReduceOperation::kSum;
}

}  // namespace internal

/// Result of reduce() of a method with result R.
template <typename R, typename Operation>
struct Reduced {
  using Type = R;
};
template <typename R>
struct Reduced<R, Mean> {
  using Type = typename internal::Elements<R>::Mean;
};
template <typename R, typename Operation>
using ReducedOf = typename Reduced<R, Operation>::Type;

}  // namespace weft::actors
