#include "transfer/wire/wire.h"

#include "core/base/check.h"

namespace weft::transfer {

std::string_view to_string(Path path) {
  switch (path) {
    case Path::kLoopback: return "loopback";
    case Path::kSharedMemory: return "shm";
    case Path::kTcp: return "tcp";
  }
  WEFT_CHECK(false, "path {}", static_cast<int>(path));
}

}  // namespace weft::transfer
