#include "core/base/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "core/base/error.h"

namespace weft {

std::vector<std::string> plugin_folders() {
  std::vector<std::string> folders;
  const char* const asked = std::getenv("WEFT_PLUGINS");
  for (std::string_view list = asked != nullptr ? asked : ""; !list.empty();) {
    const std::size_t end = list.find(':');
    if (end != 0) folders.emplace_back(list.substr(0, end));
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
  }
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!ignored) folders.push_back((program.parent_path().parent_path() / "lib").string());
  folders.emplace_back(WEFT_BUILT_PLUGINS);
  return folders;
}

void* plugin_entry(const std::string& file, const char* entry) {
  for (const std::string& folder : plugin_folders()) {
    const std::filesystem::path path = std::filesystem::path(folder) / file;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr)
      throw_error(ErrorCode::kFailedPrecondition, "{} cannot be opened: {}", path.string(),
                  ::dlerror());
    void* const function = ::dlsym(handle, entry);
    if (function == nullptr)
      throw_error(ErrorCode::kFailedPrecondition,
                  "{} lacks the function {}: plugin and program are from different builds; build "
                  "both again",
                  path.string(), entry);
    return function;
  }
  return nullptr;
}

}  // namespace weft
