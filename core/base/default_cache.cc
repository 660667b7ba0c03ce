#include "core/base/default_cache.h"

#include <cstdlib>

#include "core/base/private_file.h"

namespace weft {

namespace fs = std::filesystem;

fs::path default_cache() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return fs::path(cache) / "weft";
  if (const char* home = std::getenv("HOME"); home && *home)
    return fs::path(home) / ".cache" / "weft";
  return private_temporary_folder(fs::temp_directory_path(),
                                  "neither XDG_CACHE_HOME nor HOME is set") /
         "cache";
}

}  // namespace weft
