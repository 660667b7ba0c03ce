#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace weft {

/// Returns the number on which program and plugin must agree. It depends on `version` and on the
/// sizes of the types passed between them. Raise `version` when a virtual function of the plugin's
/// interface changes.
constexpr std::uint64_t plugin_stamp(std::uint64_t version,
                                     std::initializer_list<std::size_t> sizes) {
  std::uint64_t stamp = version;
  for (const std::size_t size : sizes) stamp = stamp * 1000003 + size;
  return stamp;
}

}  // namespace weft
