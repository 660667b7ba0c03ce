#pragma once

#include <filesystem>
#include <string>

#include "actors/net/address.h"
#include "actors/system/system.h"
#include "core/log/log.h"

namespace weft::actors {

/// Protection of a process's connections in a cluster: TLS beyond loopback, unless disabled. The
/// head's certificate lies beside its token:
///
///   STATE/certificate.pem, STATE/key.pem    mode 0600, made by a head that listens beyond loopback
///
/// A value, without secrets.
struct ConnectionSecurity {
  bool insecure = false;
  /// SHA-256 of the certificate that the head must present; empty: any, as both sides prove the
  /// token over that very connection.
  std::string certificate = {};
  /// True if a person gave it: TLS on loopback, too, which may be a tunnel's end.
  bool given_by_user = false;

  /// Configures a process that is connected to the head at that address.
  void apply(const Address& head, SystemOptions& options) const;
};

/// Returns what `--cert` and `--insecure` of a command ask for. Without them, uses the certificate
/// of this user's head on this machine, or the one beside the token file. Throws
/// Error(kInvalidArgument) for a text that is no SHA-256, and for both options at once.
ConnectionSecurity find_protection(const Address& head, const std::filesystem::path& token_file,
                                   const std::string& certificate, bool insecure);

/// Logs the consequences of --insecure, at every start.
void warn_of_insecure(const Log& log);

/// Returns the key and certificate in the head's state folder; makes them if there are none. Throws
/// Error(kFailedPrecondition).
TlsIdentity load_or_make_identity(const std::filesystem::path& state_directory);

}  // namespace weft::actors
