#include "actors/tls/tls_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr const char* kFile = "libweft_tls.so";
constexpr const char* kEntry = "weft_tls_plugin";

/// WEFT_PLUGINS, lib/ beside the program's bin/, and where it was built.
std::vector<std::string> places() {
  std::vector<std::string> found;
  if (const char* asked = std::getenv("WEFT_PLUGINS"); asked != nullptr && *asked != 0)
    found.emplace_back(asked);
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!ignored) found.push_back((program.parent_path().parent_path() / "lib").string());
  found.emplace_back(WEFT_BUILT_PLUGINS);
  return found;
}

const TlsLibrary& open_library() {
  for (const std::string& folder : places()) {
    const std::string path = folder + "/" + kFile;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr)
      throw_error(ErrorCode::kFailedPrecondition, "{} cannot be opened: {}", path, ::dlerror());
    const auto entry =
        reinterpret_cast<const TlsLibrary* (*)(std::uint64_t)>(::dlsym(handle, kEntry));
    const TlsLibrary* const library = entry != nullptr ? entry(TlsLibrary::kStamp) : nullptr;
    if (library == nullptr)
      throw_error(ErrorCode::kFailedPrecondition,
                  "{} was built from other sources than this program: build both anew", path);
    return *library;
  }
  throw_error(ErrorCode::kFailedPrecondition,
              "TLS is needed beyond loopback, and there is no {} in {}: it belongs to Weft, beside "
              "bin/; set WEFT_PLUGINS to the folder that has it",
              kFile, fmt::join(places(), ", "));
}

}  // namespace

const TlsLibrary& tls_library() {
  // It stays loaded; where opening throws, the next call tries again.
  static const TlsLibrary& library = open_library();
  return library;
}

}  // namespace weft::actors
