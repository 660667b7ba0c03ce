#include "core/cpu/internal/vector_kernels.h"

namespace weft {

namespace baseline {
extern const VectorKernels kKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const VectorKernels kKernels;
}
namespace avx512 {
extern const VectorKernels kKernels;
}
#endif

const VectorKernels& vector_kernels(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return avx512::kKernels;
  if (set == InstructionSet::kAvx2) return avx2::kKernels;
#endif
  static_cast<void>(set);
  return baseline::kKernels;
}

}  // namespace weft
