// Load-balanced 3-D products (Bian et al. 2021, arXiv 2105.14450, algorithms 1 to 3): every product
// is split in all three dimensions, and the next product swaps the axes of k and n.
#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {

const LayoutDefinition kLayout3d{
    "3d", {Role::kWeight, Role::kInput, Role::kOutput}, [](AxesOf& axis) -> LayoutAxes {
      const auto &i = axis[Role::kWeight], &j = axis[Role::kInput], &l = axis[Role::kOutput];
      return {.tokens = i, .expand = {l, j}, .contract = {j, l}, .parameter_axes = i};
    }};

}  // namespace weft::mesh
