// Tesseract (Wang et al. 2021, section 3.1): several 2d squares, each with its own tokens.
#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {

const LayoutDefinition kLayout2Point5d{
    "2.5d", {Role::kDepth, Role::kRow, Role::kColumn}, [](AxesOf& axis) -> LayoutAxes {
      LayoutAxes axes = kLayout2d.axes(axis);
      const auto& d = axis[Role::kDepth];
      axes.tokens.insert(axes.tokens.begin(), d.begin(), d.end());
      axes.parameter_axes.insert(axes.parameter_axes.end(), d.begin(), d.end());
      return axes;
    }};

}  // namespace weft::mesh
