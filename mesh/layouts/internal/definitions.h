#pragma once

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "mesh/layouts/layout.h"

namespace weft::mesh {

/// Axis indices by role; of size 1 or absent: empty.
using AxesOf = std::map<Role, std::vector<int>>;

/// The axes that split the inner and the outer feature dimensions of a linear.
struct LinearAxes {
  std::vector<int> k;
  std::vector<int> n;
};

/// What a layout says of a mesh. Lists are outer first.
struct LayoutAxes {
  std::vector<int> tokens;
  LinearAxes expand;
  LinearAxes contract;
  /// What homes of parameters take of what is left over, in this order.
  std::vector<int> spare;
  /// Activations of the residual stream take what is left over.
  bool split_residual = true;
  /// Parameters that are no matrices (biases, norms, positions) take what is left over.
  bool split_vectors = true;
};

/// A layout: a file beside this one, and a row of the list in layout.cc.
struct LayoutDefinition {
  std::string_view name;
  std::vector<Role> roles;  ///< That it must have; `data` is possible with all.
  LayoutAxes (*axes)(AxesOf& axis);
};

/// What the layout says of this mesh, with roles found. Throws as layout_strategy().
LayoutAxes axes_of(const LayoutChoice& choice, const DeviceMesh& mesh);

extern const LayoutDefinition kLayout1d;
extern const LayoutDefinition kLayout1dSequence;
extern const LayoutDefinition kLayout2d;
extern const LayoutDefinition kLayout2Point5d;
extern const LayoutDefinition kLayout3d;
extern const LayoutDefinition kLayoutFsdp;

}  // namespace weft::mesh
