#include "core/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace weft {

void check_failed(const char* condition, const char* file, int line, const std::string& details) {
  std::fprintf(stderr, "CHECK failed: %s%s%s%s at %s:%d\n", condition, details.empty() ? "" : " (",
               details.c_str(), details.empty() ? "" : ")", file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace weft
