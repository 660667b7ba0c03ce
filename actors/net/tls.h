#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "actors/net/network.h"
#include "actors/tls/tls_library.h"

namespace weft::actors {

/// Returns true for "127.0.0.1", "::1", "::ffff:127.0.0.1" and "localhost": data sent there does
/// not leave the machine.
bool is_loopback(const std::string& host);

/// Set of connections of a process that use TLS.
enum class TlsMode : std::uint8_t {
  kBeyondLoopback,
  kAlways,
  kNever,  ///< Requested by --insecure.
};

/// TLS policy and identity of a process.
///
/// The first byte tells what a connecting peer speaks: a TLS record begins with 0x16, a frame of
/// Weft with 'W'. A plaintext peer that must use TLS is thus refused in frames that it can read. In
/// a simulated world nothing is encrypted.
///
/// Owned by the owner of the loop; loop's thread, except the constructor.
class TlsPolicy final {
 public:
  /// Takes the identity by which peers know this process; empty: generated when it is needed.
  explicit TlsPolicy(TlsMode mode, TlsIdentity identity = {})
      : mode_(mode), identity_(std::move(identity)) {}

  /// Wraps an accepted stream, whose first byte tells whether it speaks TLS.
  std::unique_ptr<ByteStream> wrap_accepted(std::unique_ptr<ByteStream> stream);
  /// Wraps a dialled stream; see DialTls. Throws the errors of tls_library(), and
  /// Error(kFailedPrecondition) if a certificate is expected and TLS is disabled.
  std::unique_ptr<ByteStream> wrap_dialled(std::unique_ptr<ByteStream> stream,
                                           const std::string& certificate);

  TlsMode mode() const { return mode_; }
  /// Returns true if a connection to or from `host` must use TLS.
  static bool tls_required(TlsMode mode, const std::string& host);
  TlsContext& context();

 private:
  const TlsMode mode_;
  TlsIdentity identity_;
  std::unique_ptr<TlsContext> context_;
};

}  // namespace weft::actors
