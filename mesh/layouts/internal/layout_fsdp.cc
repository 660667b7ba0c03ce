// Fully sharded data parallelism (ZeRO stage 3: Rajbhandari et al. 2020, section 5.3): data splits
// tokens and parameters; parameters are gathered for use.
#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {

const LayoutDefinition kLayoutFsdp{
    "fsdp", {Role::kData}, [](AxesOf& axis) -> LayoutAxes {
      return {.tokens = {}, .expand = {}, .contract = {}, .parameter_axes = axis[Role::kData]};
    }};

}  // namespace weft::mesh
