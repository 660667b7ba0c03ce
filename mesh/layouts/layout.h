#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/layouts/split_graph.h"
#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// Role of a mesh axis in a layout.
enum class Role : std::uint8_t {
  kTensor,
  kRow,
  kColumn,
  kDepth,
  kWeight,
  kInput,
  kOutput,
  kData,
};
/// Returns the role's name: "tensor", "row", ...
std::string_view to_string(Role role);
std::span<const Role> all_roles();
/// Returns the short axis name that also implies the role: "t", "r", "c", "d", "i", "j", "l",
/// "data".
std::string_view short_name_of(Role role);

/// Axis of each role. Axes of size 1 have roles too.
using Roles = std::map<Role, std::string>;

/// Layout that a run file selects for a mesh.
struct LayoutChoice {
  std::string name;  ///< See layout_names().
  Roles roles;       ///< Roles given explicitly; axis names imply the others.
  /// True if parameters are split over the data axis too, as in `fsdp`.
  bool shard_data = false;
  /// Absent: kStep if memory allows it (see ParallelConfig::memory), else kMicrobatch.
  std::optional<GatherFrequency> gather = {};
  friend bool operator==(const LayoutChoice&, const LayoutChoice&) = default;
};

/// Returns "1d", "1d-sequence", "2d", "2.5d", "3d", "fsdp".
std::vector<std::string> layout_names();

/// Returns how many ways the layout splits the dimensions that ops normalise or select over: see
/// split_graph(). Throws as layout_strategy().
FeatureSplits feature_splits(const LayoutChoice& choice, const DeviceMesh& mesh);

/// Makes the strategy of a named layout for the part of a graph on a mesh. An *expand* is a linear
/// from the residual stream ("embed") to a hidden dimension ("heads", "mlp", "vocab"); a *contract*
/// is one back. A layout defines the axes that split tokens, and k and n of both. Activations and
/// parameters are kept split over these axes and then over the remaining ones, so that each device
/// has its share. Backward ops inherit from their forward ops. Apply split_graph() to the graph
/// first. Throws Error(kInvalidConfig) with advice, and where() "layout", for an unknown layout, a
/// role without an axis, an axis with two roles or none, other linears, and sizes that do not
/// divide.
///
/// Gradients of parameters stay as their ops make them: compile() reduces them.
ShardingStrategy layout_strategy(const MeshGraph& part, const LayoutChoice& choice);

}  // namespace weft::mesh
