#pragma once

#include "core/ops/op_definition.h"

namespace weft {

// kAddDefinition, kSumLeadingDefinition, ...: one per op, each defined in the file of its family.
#define WEFT_OP(kind, name) extern const OpDefinition kind##Definition;
WEFT_OPS(WEFT_OP)
#undef WEFT_OP

}  // namespace weft
