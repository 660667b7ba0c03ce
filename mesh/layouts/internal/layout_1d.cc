// Megatron (Shoeybi et al. 2019, section 3): expand is split by outputs, contract by inputs.
#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {

const LayoutDefinition kLayout1d{"1d", {Role::kTensor}, [](AxesOf& axis) -> LayoutAxes {
                                   const auto& t = axis[Role::kTensor];
                                   return {.tokens = {},
                                           .expand = {{}, t},
                                           .contract = {t, {}},
                                           .parameter_axes = {},
                                           .split_residual = false,
                                           .split_vectors = false};
                                 }};

}  // namespace weft::mesh
