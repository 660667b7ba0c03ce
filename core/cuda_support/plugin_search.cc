#include "core/cuda_support/plugin_search.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/base/plugin.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// Returns the subfolders of `folder`, sorted by name; none if it does not exist.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator i(folder, ignored), end; !ignored && i != end; i.increment(ignored)) {
    if (i->is_directory(ignored)) found.push_back(i->path());
  }
  std::ranges::sort(found);
  return found;
}

void add_folder(std::vector<fs::path>& folders, const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored) && std::ranges::find(folders, folder) == folders.end())
    folders.push_back(folder);
}

/// Adds the folders prefix/lib/python3*/{site,dist}-packages/nvidia/*/lib.
void add_python(std::vector<fs::path>& folders, const fs::path& prefix) {
  for (const char* lib : {"lib", "lib64"}) {
    for (const fs::path& version : folders_in(prefix / lib)) {
      if (!version.filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& package : folders_in(version / packages / "nvidia"))
          add_folder(folders, package / "lib");
      }
    }
  }
}

/// Returns the first folder in PATH that contains the program.
std::optional<fs::path> folder_in_path(const PluginEnvironment& places, const char* program) {
  for (const fs::path& folder : split_folders(places.variable("PATH").value_or(""))) {
    std::error_code ignored;
    if (fs::exists(folder / program, ignored)) return folder;
  }
  return std::nullopt;
}

}  // namespace

PluginEnvironment plugin_places() {
  std::error_code ignored;
  return {fs::read_symlink("/proc/self/exe", ignored), "/",
          [](const char* name) -> std::optional<std::string> {
            const char* value = std::getenv(name);
            if (value == nullptr) return std::nullopt;
            return value;
          }};
}

PluginSearch plugin_search(const PluginEnvironment& places) {
  PluginSearch search;
  search.plugins = plugin_folders(places.variable("WEFT_PLUGINS").value_or(""), places.executable);
  search.configured_library_folders =
      split_folders(places.variable("WEFT_CUDA_LIBRARIES").value_or(""));

  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string home = places.variable(name).value_or("");
    if (!home.empty()) add_folder(search.default_library_folders, fs::path(home) / "lib64");
  }
  add_folder(search.default_library_folders, places.root / "usr/local/cuda/lib64");
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = places.variable(name).value_or("");
    if (!prefix.empty()) add_python(search.default_library_folders, prefix);
  }
  if (const auto folder = folder_in_path(places, "python3")) {
    add_python(search.default_library_folders, folder->parent_path());
    // python3 may be a link to an interpreter in another prefix.
    std::error_code ignored;
    const fs::path target = fs::canonical(*folder / "python3", ignored);
    if (!ignored) add_python(search.default_library_folders, target.parent_path().parent_path());
  }
  if (const std::string home = places.variable("HOME").value_or(""); !home.empty())
    add_python(search.default_library_folders, fs::path(home) / ".local");
  add_python(search.default_library_folders, places.root / "usr/local");
  add_python(search.default_library_folders, places.root / "usr");
  const std::string check = places.variable("WEFT_CUDA_CHECK").value_or("");
  search.check_every_op = !check.empty() && check != "0";
  search.graphs = places.variable("WEFT_CUDA_GRAPHS").value_or("") != "0";
  search.measure_products = places.variable("WEFT_CUDA_MEASURE").value_or("") != "0";
  return search;
}

}  // namespace weft
