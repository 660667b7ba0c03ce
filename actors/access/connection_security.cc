#include "actors/access/connection_security.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "actors/access/token.h"
#include "core/base/error.h"
#include "core/base/private_file.h"

namespace weft::actors {
namespace {

constexpr std::string_view kDigest = "sha256:";
constexpr const char* kCertificateFile = "certificate.pem";
constexpr const char* kKeyFile = "key.pem";

std::string parse_digest(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with(kDigest)) digits.remove_prefix(kDigest.size());
  std::string digest(digits);
  std::ranges::transform(digest, digest.begin(), [](unsigned char c) { return std::tolower(c); });
  if (digest.size() != 64 || digest.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw_error(ErrorCode::kInvalidArgument,
                "--cert {}: expected sha256: and 64 hexadecimal digits, as in the `weft join` that "
                "`weft head` prints",
                text);
  return digest;
}

std::optional<std::string> read_pem(const std::filesystem::path& path) {
  const std::string hint = "without it the head cannot use the certificate that its hosts know";
  return read_private_file(path, "file", hint,
                           "so anyone can impersonate this head: remove it and certificate.pem, "
                           "and give the hosts the --cert that the head then prints");
}

/// Returns the digest of the certificate beside a token file; empty if that cannot be read.
std::string digest_beside(const std::filesystem::path& token_file) {
  std::error_code failed;
  const auto real = std::filesystem::canonical(token_file, failed);
  if (failed) return "";
  try {
    const auto pem = read_pem(real.parent_path() / kCertificateFile);
    return pem ? tls_library().certificate_sha256(*pem) : "";
  } catch (const Error&) {
    return "";  // belongs to another user
  }
}

}  // namespace

void ConnectionSecurity::apply(const Address& head, SystemOptions& options) const {
  if (insecure) options.tls = TlsMode::kNever;
  if (!certificate.empty())
    options.pinned = SystemOptions::Pinned{head, certificate, given_by_user};
}

ConnectionSecurity find_protection(const Address& head, const std::filesystem::path& token_file,
                                   const std::string& certificate, bool insecure) {
  if (insecure && !certificate.empty())
    throw_error(ErrorCode::kInvalidArgument,
                "--cert requires TLS and --insecure disables it: use only one of them");
  if (insecure) return {true};
  if (!certificate.empty()) return {false, parse_digest(certificate), true};
  if (!TlsPolicy::tls_required(TlsMode::kBeyondLoopback, head.host)) return {};
  return {false, digest_beside(token_file.empty() ? linked_token_file(head.port) : token_file)};
}

void warn_of_insecure(const Log& log) {
  log.warning(
      "--insecure: connections between machines are encrypted with keys of the token, not with "
      "TLS: anyone who records them and learns the token later can read them, and no certificate "
      "authenticates the head. Leave it out where that matters");
}

TlsIdentity load_or_make_identity(const std::filesystem::path& state_directory) {
  const std::filesystem::path folder =
      std::filesystem::absolute(state_directory).lexically_normal();
  auto key = read_pem(folder / kKeyFile);
  auto certificate = read_pem(folder / kCertificateFile);
  if (key && certificate) {
    TlsIdentity known{std::move(*key), std::move(*certificate)};
    try {
      (void)tls_library().make_context(known);
      return known;
    } catch (const Error& error) {
      throw_error(ErrorCode::kFailedPrecondition,
                  "{} and {} in {} are not the head's key and certificate: {}; bring them back, or "
                  "remove both, and give hosts the --cert that the head prints then",
                  kKeyFile, kCertificateFile, folder.string(), error.message());
    }
  }
  create_private_folder(folder);
  TlsIdentity made = tls_library().make_identity();
  // If the head dies in between, the next start makes both again.
  write_private_file(folder / kKeyFile, made.key, "key", kStateHint);
  write_private_file(folder / kCertificateFile, made.certificate, "certificate", kStateHint);
  return made;
}

}  // namespace weft::actors
