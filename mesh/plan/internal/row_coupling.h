#pragma once

#include <optional>
#include <string>

#include "core/graph/graph.h"

namespace weft::mesh {

/// Returns the op by which the rows of a microbatch depend on each other, with its output; nothing
/// if there is none. Then halves of the rows, one after the other, compute what all rows together
/// do. Rows are dimension 0 of the data inputs. Sums over rows are allowed in losses, which add up.
std::optional<std::string> find_row_coupling(const Graph& graph);

}  // namespace weft::mesh
