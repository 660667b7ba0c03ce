// SUMMA on a square of devices (Optimus: Xu et al. 2021, section 3.1): rows split tokens, columns
// split features; X is gathered along columns, W along rows.
#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {

const LayoutDefinition kLayout2d{
    "2d", {Role::kRow, Role::kColumn}, [](AxesOf& axis) -> LayoutAxes {
      const auto &r = axis[Role::kRow], &c = axis[Role::kColumn];
      return {.tokens = r, .expand = {{}, c}, .contract = {{}, c}, .parameter_axes = r};
    }};

}  // namespace weft::mesh
