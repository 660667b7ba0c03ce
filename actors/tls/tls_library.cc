#include "actors/tls/tls_library.h"

#include "core/base/error.h"
#include "core/base/plugin.h"

namespace weft::actors {
namespace {

const TlsLibrary& open_library() {
  const auto path = find_plugin(TlsLibrary::kFile, plugin_folders());
  if (!path)
    throw_error(
        ErrorCode::kFailedPrecondition,
        "TLS is required beyond loopback, but {} was not found in {}; it is part of Weft, in a "
        "folder beside bin/; set WEFT_PLUGINS to that folder",
        TlsLibrary::kFile, folder_list(plugin_folders()));
  return *open_plugin<TlsLibrary>(*path).release();
}

}  // namespace

const TlsLibrary& tls_library() {
  // Never destroyed. If opening throws, the next call tries again.
  static const TlsLibrary& library = open_library();
  return library;
}

}  // namespace weft::actors
