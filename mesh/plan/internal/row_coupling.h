#pragma once

#include <optional>
#include <string>

#include "core/graph/graph.h"

namespace weft::mesh {

/// Returns the name and output of a forward op that makes the rows of a microbatch depend on each
/// other; nothing if no op does. Without such an op, two halves of the rows, computed one after the
/// other, give the results of all rows. Rows are dimension 0 of the data inputs. Losses may sum
/// over rows, as they add up.
std::optional<std::string> find_row_coupling(const Graph& graph);

}  // namespace weft::mesh
