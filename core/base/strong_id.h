#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <functional>

namespace weft {

/// Id with a type of its own: `using ValueId = StrongId<struct ValueTag>`. Different kinds of ids
/// do not convert to each other.
template <typename Tag, typename T = std::uint32_t>
class StrongId {
 public:
  using Underlying = T;
  constexpr StrongId() = default;
  constexpr explicit StrongId(T value) : value_(value) {}
  constexpr T value() const { return value_; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  T value_ = 0;
};

}  // namespace weft

template <typename Tag, typename T>
struct std::hash<weft::StrongId<Tag, T>> {
  std::size_t operator()(weft::StrongId<Tag, T> id) const noexcept {
    return std::hash<T>()(id.value());
  }
};

template <typename Tag, typename T>
struct fmt::formatter<weft::StrongId<Tag, T>> : fmt::formatter<T> {
  template <typename Context>
  auto format(weft::StrongId<Tag, T> id, Context& context) const {
    return fmt::formatter<T>::format(id.value(), context);
  }
};
