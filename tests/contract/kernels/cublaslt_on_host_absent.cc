#include "core/base/error.h"
#include "tests/contract/kernels/kernel_runners.h"

namespace weft::test {

std::unique_ptr<KernelRunner> cublaslt_on_host() {
  throw_error(ErrorCode::kFailedPrecondition,
              "built without cublasLt.h, of which the tests have a double");
}

}  // namespace weft::test
