#pragma once

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "mesh/layouts/layout.h"

namespace weft::mesh {

/// Axis indices by role. Empty if the axis has size 1 or is absent.
using AxesOf = std::map<Role, std::vector<int>>;

/// Axes that split the inner (k) and outer (n) feature dimensions of a linear.
struct LinearAxes {
  std::vector<int> k;
  std::vector<int> n;
};

/// Axes of a layout on a mesh. Lists are outermost first.
struct LayoutAxes {
  std::vector<int> tokens;
  LinearAxes expand;
  LinearAxes contract;
  /// Axes over which parameters are split as well, in this order.
  std::vector<int> parameter_axes;
  /// True if activations of the residual stream are also split over all remaining axes.
  bool split_residual = true;
  /// True if parameters that are not matrices (biases, norms, positions) are also split over
  /// `parameter_axes`.
  bool split_vectors = true;
};

/// Definition of a layout: a file in this folder, and a row of the list in layout.cc.
struct LayoutDefinition {
  std::string_view name;
  std::vector<Role> roles;  ///< Required roles; `data` is always allowed.
  LayoutAxes (*axes)(AxesOf& axis);
};

/// Returns the layout's axes on this mesh. Throws as layout_strategy().
LayoutAxes axes_of(const LayoutChoice& choice, const DeviceMesh& mesh);

extern const LayoutDefinition kLayout1d;
extern const LayoutDefinition kLayout1dSequence;
extern const LayoutDefinition kLayout2d;
extern const LayoutDefinition kLayout2Point5d;
extern const LayoutDefinition kLayout3d;
extern const LayoutDefinition kLayoutFsdp;

}  // namespace weft::mesh
