#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <vector>

namespace weft {

template <typename T>
struct codec;

template <typename T>
concept PortableNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, long double>;
template <typename T>
concept ScopedEnum = std::is_enum_v<T> && !std::is_convertible_v<T, std::underlying_type_t<T>>;

/// Reports, once per type, that T has no codec: fails with a static assertion. Returns false.
template <typename T>
constexpr bool report_missing_codec() {
  constexpr bool reference = !std::is_same_v<T, std::remove_cvref_t<T>>;
  constexpr bool pointer = std::is_pointer_v<T>;
  constexpr bool unscoped_enum = std::is_enum_v<T>;
  constexpr bool long_double = std::is_same_v<T, long double>;
  constexpr bool list_of_bool = std::is_same_v<T, std::vector<bool>>;
  constexpr bool other = !(reference || pointer || unscoped_enum || long_double || list_of_bool);
  static_assert(!reference, "const and & cannot be sent: list the type of the value");
  static_assert(!pointer,
                "a pointer cannot be sent, as it is valid in one process only: send the value");
  static_assert(!unscoped_enum, "an unscoped enum cannot be sent: make it an `enum class`");
  static_assert(!long_double,
                "long double cannot be sent, as it differs between machines: use double");
  static_assert(!list_of_bool, "std::vector<bool> cannot be sent: use std::vector<std::uint8_t>");
  static_assert(!other,
                "this type cannot be sent: add a public `static constexpr auto fields = "
                "weft::fields(&T::a, ...);` to it, or specialise weft::codec for it");
  return false;
}

/// Types of the parts of a T: `Parts` of its codec, a tuple; void if T has no codec. A codec that
/// lists none has no parts to check.
template <typename T>
struct CodecParts {
  using Type = std::tuple<>;
};
template <typename T>
requires requires { typename codec<T>::Parts; }
struct CodecParts<T> {
  using Type = typename codec<T>::Parts;
};

/// Checks that a type and all its parts have codecs: `value` is true if they have. Otherwise
/// report_missing_codec() fails, below one CodecCheck for each type that contains the one without a
/// codec.
template <typename T, typename Parts = typename CodecParts<T>::Type>
struct CodecCheck;
template <typename T, typename... Parts>
struct CodecCheck<T, std::tuple<Parts...>> {
  static constexpr bool value = (true && ... && CodecCheck<Parts>::value);
};
template <typename T>
struct CodecCheck<T, void> {
  static constexpr bool value = report_missing_codec<T>();
};

}  // namespace weft
