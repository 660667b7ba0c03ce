// Processors whose AES instructions nobody has written a variant for.
#include "core/base/internal/aes_variants.h"

namespace weft {

const Aes* aes_of_processor() { return nullptr; }

}  // namespace weft
