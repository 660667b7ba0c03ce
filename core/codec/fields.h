#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "core/base/philox.h"

namespace weft {

/// Lists the members of a struct to be encoded. Used once, inside the struct, after the members:
///   struct Plan {
///     int step = 0;
///     std::string name;
///     static constexpr auto fields = weft::fields(&Plan::step, &Plan::name);
///   };
/// Members may be private. The struct needs a default constructor.
template <typename T, typename... Members>
constexpr std::tuple<Members T::*...> fields(Members T::*... members) {
  return {members...};
}

template <typename T>
concept HasFields = std::is_class_v<T> && requires {
  std::tuple_size<std::remove_cvref_t<decltype(T::fields)>>::value;
};

/// Mixes a number into a fingerprint.
constexpr std::uint64_t mix_fingerprint(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ull;
  return hash ^ (hash >> 27);
}

constexpr std::uint64_t fingerprint_of(std::string_view name) {
  return fnv1a(name.data(), name.size());
}

/// Returns "step" for member_name<&Plan::step>(), extracted from the compiler's name of this
/// function.
template <auto Member>
constexpr std::string_view member_name() {
  // "... [with auto Member = &weft::Plan::step; ...]" or "... [Member = &weft::Plan::step]"
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("Member = ") + 9);
  name = name.substr(0, name.find_first_of(";]"));
  if (const auto colon = name.rfind("::"); colon != std::string_view::npos)
    name.remove_prefix(colon + 2);
  while (!name.empty() && (name.back() == ')' || name.back() == ' ')) name.remove_suffix(1);
  return name;
}

}  // namespace weft
