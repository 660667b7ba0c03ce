#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/codec/codec.h"
#include "core/graph/op_kind.h"

namespace weft {

using Attribute = std::variant<std::int64_t, double>;

/// Operator with its attributes.
struct Op {
  OpKind kind = OpKind::kAdd;
  std::vector<std::pair<std::string, Attribute>> attributes;

  /// Return an attribute's value. Throw Error(kInternal) if it is absent or of the other type.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  friend bool operator==(const Op&, const Op&) = default;
  static constexpr auto fields = weft::fields(&Op::kind, &Op::attributes);
};

/// Returns "attention(head_dim=64)".
std::string to_string(const Op& op);

}  // namespace weft

template <>
struct weft::last_enumerator<weft::OpKind> {
  static constexpr auto kValue = static_cast<weft::OpKind>(weft::kOpKinds - 1);
};
