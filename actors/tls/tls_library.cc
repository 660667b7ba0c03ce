#include "actors/tls/tls_library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/plugin.h"

namespace weft::actors {
namespace {

constexpr const char* kFile = "libweft_tls.so";

const TlsLibrary& open_library() {
  const auto entry = reinterpret_cast<const TlsLibrary* (*)(std::uint64_t)>(
      plugin_entry(kFile, "weft_tls_plugin"));
  if (entry == nullptr)
    throw_error(
        ErrorCode::kFailedPrecondition,
        "TLS is required beyond loopback, but {} was not found in {}; it is part of Weft, in a "
        "folder beside bin/; set WEFT_PLUGINS to that folder",
        kFile, fmt::join(plugin_folders(), ", "));
  const TlsLibrary* const library = entry(TlsLibrary::kInterfaceVersion);
  if (library == nullptr)
    throw_error(ErrorCode::kFailedPrecondition,
                "{} and this program were built from different sources: rebuild both", kFile);
  return *library;
}

}  // namespace

const TlsLibrary& tls_library() {
  // Never unloaded. If opening throws, the next call tries again.
  static const TlsLibrary& library = open_library();
  return library;
}

}  // namespace weft::actors
