#include "core/base/plugin.h"

#include <dlfcn.h>

#include <cstdlib>

namespace weft {

namespace fs = std::filesystem;

std::vector<fs::path> split_folders(std::string_view list) {
  std::vector<fs::path> folders;
  while (!list.empty()) {
    const std::size_t end = list.find(':');
    if (end != 0) folders.emplace_back(list.substr(0, end));
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
  }
  return folders;
}

std::string folder_list(const std::vector<fs::path>& folders) {
  std::string text;
  for (const fs::path& folder : folders) text += (text.empty() ? "" : ", ") + folder.string();
  return text;
}

std::vector<fs::path> plugin_folders(std::string_view configured, const fs::path& executable) {
  std::vector<fs::path> folders = split_folders(configured);
  if (!executable.empty()) folders.push_back(executable.parent_path().parent_path() / "lib");
  return folders;
}

std::vector<fs::path> plugin_folders() {
  const char* const configured = std::getenv("WEFT_PLUGINS");
  std::error_code ignored;
  std::vector<fs::path> folders = plugin_folders(configured != nullptr ? configured : "",
                                                 fs::read_symlink("/proc/self/exe", ignored));
  folders.emplace_back(WEFT_BUILT_PLUGINS);
  return folders;
}

std::optional<fs::path> find_plugin(std::string_view file, const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    if (fs::exists(folder / file, ignored)) return folder / file;
  }
  return std::nullopt;
}

void* plugin_function(const fs::path& plugin, const char* name) {
  void* const library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr)
    throw_error(ErrorCode::kFailedPrecondition, "{} cannot be opened: {}", plugin.string(),
                ::dlerror());
  void* const function = ::dlsym(library, name);
  if (function == nullptr)
    throw_error(ErrorCode::kFailedPrecondition,
                "{} lacks the function {}: it is from another version of Weft; build both again",
                plugin.string(), name);
  return function;
}

}  // namespace weft
