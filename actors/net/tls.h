#pragma once

#include <memory>
#include <string>

#include "actors/net/network.h"
#include "actors/tls/tls_library.h"

namespace weft::actors {

/// "127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost": what is sent there does not leave the
/// machine.
bool is_loopback(const std::string& host);

/// Which connections of a process speak TLS, and as whom.
///
/// The first byte says what whoever connects speaks: a TLS record begins with 0x16, a frame of Weft
/// with 'W'. So who has to speak TLS and does not can be told in frames that it reads. In a
/// simulated world nothing is encrypted.
///
/// Owned by the owner of the loop; loop's thread, but for the constructor.
class Tls final {
 public:
  enum class Use : std::uint8_t {
    kBeyondLoopback,
    kAlways,
    kNever,  ///< What the word --insecure asks for.
  };
  /// `identity`: what others know this process by; none: one of its own, made when it is needed.
  explicit Tls(Use use, TlsIdentity identity = {}) : use_(use), identity_(std::move(identity)) {}

  /// What somebody else has connected.
  std::unique_ptr<Stream> accepted(std::unique_ptr<Stream> stream);
  /// What this process has; see DialTls. Throws what tls_library() throws, and
  /// Error(kFailedPrecondition) where a certificate is expected and TLS is not to be used.
  std::unique_ptr<Stream> dialled(std::unique_ptr<Stream> stream, const std::string& certificate);

  Use use() const { return use_; }
  /// Whether a connection to or from that host has to speak TLS.
  static bool is_due(Use use, const std::string& host);
  TlsContext& context();

 private:
  const Use use_;
  TlsIdentity identity_;
  std::unique_ptr<TlsContext> context_;
};

}  // namespace weft::actors
