#include "core/graph/op.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace weft {

namespace {
template <typename T>
T find_attribute(const Op& op, std::string_view name) {
  for (const auto& [key, value] : op.attributes) {
    if (key != name) continue;
    if (const T* found = std::get_if<T>(&value)) return *found;
  }
  throw_error(ErrorCode::kInternal, "op {} has no attribute '{}' of the type asked for",
              to_string(op.kind), name);
}
}  // namespace

std::int64_t Op::integer(std::string_view name) const {
  return find_attribute<std::int64_t>(*this, name);
}
double Op::real(std::string_view name) const { return find_attribute<double>(*this, name); }

std::string to_string(const Op& op) {
  std::string text{to_string(op.kind)};
  for (std::size_t i = 0; i < op.attributes.size(); ++i) {
    const auto& attribute = op.attributes[i];
    text += i == 0 ? "(" : ",";
    text += std::visit([&](auto number) { return fmt::format("{}={}", attribute.first, number); },
                       attribute.second);
  }
  return op.attributes.empty() ? text : text + ")";
}

}  // namespace weft
