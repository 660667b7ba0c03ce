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

/// What an axis of a mesh is to a layout.
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
/// "tensor", "row", ...
std::string_view to_string(Role role);
std::span<const Role> all_roles();
/// A mesh axis of this name takes the role too: "t", "r", "c", "d", "i", "j", "l"; "data".
std::string_view letter_of(Role role);

/// Which axis has which role. Axes of size 1 have theirs too.
using Roles = std::map<Role, std::string>;

/// A layout as a run file names it.
struct LayoutChoice {
  std::string name;  ///< See layout_names().
  Roles roles;       ///< Those that are said; the rest follow from the axes' names.
  /// Parameters are split over the data axis too, as in `fsdp`.
  bool shard_data = false;
  /// Absent: kStep where memory allows it (see LayoutConfig::memory), else kMicrobatch.
  std::optional<Gather> gather = {};
  friend bool operator==(const LayoutChoice&, const LayoutChoice&) = default;
};

/// "1d", "1d-sequence", "2d", "2.5d", "3d", "fsdp".
std::vector<std::string> layout_names();

/// What the layout splits of what ops normalise or select over: see split_graph(). Throws as
/// layout_strategy().
FeatureSplits feature_splits(const LayoutChoice& choice, const DeviceMesh& mesh);

/// Makes the strategy of a named layout for the part of a graph on a mesh. *Expand* is a linear
/// from the residual stream ("embed") to a hidden one ("heads", "mlp", "vocab"), *contract* one
/// back. Per layout the axes that split tokens, k and n of both; activations and parameters are
/// kept split over these and over the axes left over, so that each device has its share of each.
/// Backward ops inherit from their forward op. The graph has been through split_graph(). Throws
/// Error(kInvalidConfig) that says what to do for an unknown layout, a role without an axis, an
/// axis with two roles or none, a model whose linears are neither, and what does not divide; its
/// where() is "layout".
///
/// Gradients go home once per step; in every microbatch where `gather` keeps nothing gathered, or
/// where a step has one microbatch: then they are never kept in another form.
ShardingStrategy layout_strategy(const MeshGraph& part, const LayoutChoice& choice,
                                 int microbatches);

}  // namespace weft::mesh
