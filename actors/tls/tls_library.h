#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/plugin_stamp.h"

namespace weft::actors {

/// Remedy in the error when the other side does not speak TLS.
inline constexpr const char* kNoTlsHint =
    "if the cluster's head runs with --insecure, use --insecure here, too; otherwise install the "
    "same Weft on both hosts";

/// Private key and self-signed certificate, in PEM. Peers know the owner by the certificate's
/// SHA-256. A value. The key is never printed.
struct TlsIdentity {
  std::string key;
  std::string certificate;
  bool empty() const { return key.empty(); }
};

/// TLS 1.3 session of one connection. Converts between encrypted and plain bytes; does no I/O.
///
///   the socket -> receive_buffer(), commit_received() -> read()
///   write() -> take_output() -> the socket
///
/// One thread at a time, but receive_buffer() may be filled meanwhile. Errors are final:
/// kFailedPrecondition if the other side is not as expected, kUnavailable if it closed, kDataLoss
/// if data is damaged.
class TlsSession {
 public:
  virtual ~TlsSession() = default;
  /// Returns the buffer for received bytes; the same until commit_received().
  virtual std::span<std::byte> receive_buffer() = 0;
  virtual void commit_received(std::size_t count) = 0;
  /// Continues the handshake. Returns true when it is over. take_output() has the bytes to send.
  virtual bool handshake() = 0;
  /// Decrypts received bytes, after the handshake. Returns their number; 0: nothing more is there.
  virtual std::size_t read(std::span<std::byte> into) = 0;
  /// Encrypts all of `bytes`, after the handshake.
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// Moves the encrypted bytes, if any, to the end of `out`.
  virtual void take_output(std::vector<std::byte>& out) = 0;
  /// Returns the channel binding, which only the two ends know (RFC 5705, label "EXPORTER-weft").
  /// After the handshake.
  virtual std::array<std::byte, 32> channel_binding() const = 0;
};

/// Factory of the sessions of one identity. The sessions may outlive it.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  virtual std::unique_ptr<TlsSession> accept() = 0;
  /// Creates the session of an outgoing connection. `certificate`: SHA-256 of the only one that the
  /// other side may present; empty: any, as both sides prove themselves with the binding.
  virtual std::unique_ptr<TlsSession> dial(const std::string& certificate) = 0;
};

/// Interface of libweft_tls.so to the programs that open it: OpenSSL. Any thread.
class TlsLibrary {
 public:
  virtual ~TlsLibrary() = default;
  virtual TlsIdentity make_identity() const = 0;
  /// Returns 64 lower-case hexadecimal digits. Throws Error(kInvalidArgument) if it is not a PEM
  /// certificate.
  virtual std::string certificate_sha256(const std::string& certificate) const = 0;
  /// Throws Error(kInvalidArgument) if key or certificate is damaged or they do not match.
  virtual std::unique_ptr<TlsContext> make_context(const TlsIdentity& identity) const = 0;

  // Arguments of open_plugin().
  static constexpr const char* kFile = "libweft_tls.so";
  static constexpr const char* kEntry = "weft_tls_plugin";
  static constexpr std::uint64_t stamp() { return plugin_stamp(2, {sizeof(TlsIdentity)}); }
};

/// Returns the library, opened at the first call. Most processes never connect beyond loopback and
/// save the memory of OpenSSL (a third of a MiB that is written to at the start, in each). Throws
/// Error(kFailedPrecondition) that names the searched folders. Any thread.
const TlsLibrary& tls_library();

}  // namespace weft::actors
