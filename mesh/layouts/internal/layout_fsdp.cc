// Fully sharded data parallelism (ZeRO stage 3: Rajbhandari et al. 2020, section 5.3): tokens over
// data, parameters kept split over it and gathered for use.
#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {

const LayoutDefinition kLayoutFsdp{
    "fsdp", {Role::kData}, [](AxesOf& axis) -> LayoutAxes {
      return {.tokens = {}, .expand = {}, .contract = {}, .spare = axis[Role::kData]};
    }};

}  // namespace weft::mesh
