#include "mesh/schedule/action.h"

#include <fmt/format.h>

namespace weft::mesh {

std::string_view to_string(ActionKind kind) {
  static constexpr std::string_view kNames[] = {"F", "B",  "I",  "W",           "R",  "S",
                                                "T", "IF", "IB", "REDUCE_GRAD", "OPT"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string to_string(const Action& action) {
  if (!has_microbatch(action.kind))
    return fmt::format("{}{}", action.stage, to_string(action.kind));
  return fmt::format("{}{}{}", action.stage, to_string(action.kind), action.microbatch);
}

}  // namespace weft::mesh
