#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::actors {

/// What to do where the other side does not speak TLS.
inline constexpr const char* kNoTlsHint =
    "was the cluster's head started with --insecure? Then say --insecure here too; else install "
    "the same Weft on both";

/// A private key, and the self-signed certificate by whose SHA-256 others know its owner; PEM. A
/// value. The key is never printed.
struct TlsIdentity {
  std::string key;
  std::string certificate;
  bool empty() const { return key.empty(); }
};

/// TLS 1.3 of one connection: sealed bytes go in and out, plain ones out and in. Does no I/O.
///
///   the socket -> room(), arrived() -> read()          write() -> take() -> the socket
///
/// One thread at a time, but room() may be filled meanwhile. Errors are final: kFailedPrecondition
/// where the other side is not as expected, kDataLoss where what came is damaged.
class TlsSession {
 public:
  virtual ~TlsSession() = default;
  /// Where to put what has come; the same until arrived().
  virtual std::span<std::byte> room() = 0;
  virtual void arrived(std::size_t count) = 0;
  /// Goes on with the handshake; true when it is over. What it has to say is in take().
  virtual bool handshake() = 0;
  /// Opens what has come, after the handshake; 0: nothing more is there.
  virtual std::size_t read(std::span<std::byte> into) = 0;
  /// Seals all of `bytes`, after the handshake.
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// Moves what is sealed, if anything, to the end of `out`.
  virtual void take(std::vector<std::byte>& out) = 0;
  /// What both ends know, and nobody between them (RFC 5705, label "EXPORTER-weft"). After the
  /// handshake.
  virtual std::array<std::byte, 32> binding() const = 0;
};

/// Makes the sessions of one process, as somebody. The sessions may outlive it.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  virtual std::unique_ptr<TlsSession> accept() = 0;
  /// `certificate`: SHA-256 of the only one that the other side may present; empty: any, as both
  /// sides prove themselves with the binding.
  virtual std::unique_ptr<TlsSession> dial(const std::string& certificate) = 0;
};

/// What libweft_tls.so offers to the programs that open it: OpenSSL. Any thread.
class TlsLibrary {
 public:
  virtual ~TlsLibrary() = default;
  virtual TlsIdentity make_identity() const = 0;
  /// Of a PEM certificate: 64 lower-case hexadecimal digits. Throws Error(kInvalidArgument).
  virtual std::string certificate_sha256(const std::string& certificate) const = 0;
  /// Throws Error(kInvalidArgument) where key and certificate are damaged or do not fit together.
  virtual std::unique_ptr<TlsContext> make_context(const TlsIdentity& identity) const = 0;

  /// Changes with what passes between program and plugin.
  static constexpr std::uint64_t kStamp = 1;
};

/// The library, opened when it is first asked for: most processes are never connected beyond
/// loopback, and need not have OpenSSL in memory (a third of a MiB that is written to at the start,
/// in each). Throws Error(kFailedPrecondition) saying where it was looked for. Any thread.
const TlsLibrary& tls_library();

}  // namespace weft::actors
