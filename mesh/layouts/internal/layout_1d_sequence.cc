// Megatron with sequence parallelism (Korthikanti et al. 2022, section 4.2): like 1d, with the
// residual stream split between the products.
#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {

const LayoutDefinition kLayout1dSequence{
    "1d-sequence", {Role::kTensor}, [](AxesOf& axis) -> LayoutAxes {
      LayoutAxes axes = kLayout1d.axes(axis);
      axes.split_residual = true;
      return axes;
    }};

}  // namespace weft::mesh
