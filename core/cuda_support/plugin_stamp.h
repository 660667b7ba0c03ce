#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace weft {

/// What program and plugin must have in common: changes with `version`, which is to be raised when
/// a virtual function of the plugin's interface changes, and with the sizes of what passes through.
constexpr std::uint64_t plugin_stamp(std::uint64_t version,
                                     std::initializer_list<std::size_t> sizes) {
  std::uint64_t stamp = version;
  for (const std::size_t size : sizes) stamp = stamp * 1000003 + size;
  return stamp;
}

}  // namespace weft
