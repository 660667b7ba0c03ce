#include "core/base/sha256.h"

// The functions of one algorithm, which OpenSSL 3 would rather have found by name among all that it has, as a library of 5 MiB.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <array>
#include <fstream>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft {
namespace {

/// A running SHA-256.
class Digest final {
 public:
  Digest() { WEFT_CHECK(SHA256_Init(&context_) == 1); }
  void update(const void* bytes, std::size_t size) { WEFT_CHECK(SHA256_Update(&context_, bytes, size) == 1); }
  std::string finish() {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> bytes{};
    WEFT_CHECK(SHA256_Final(bytes.data(), &context_) == 1);
    std::string text;
    for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
  }

 private:
  SHA256_CTX context_{};
};

}  // namespace

std::string sha256(std::span<const std::byte> bytes) {
  Digest digest;
  digest.update(bytes.data(), bytes.size());
  return digest.finish();
}

std::string sha256_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_error(ErrorCode::kNotFound, "cannot read {}", path.string());
  Digest digest;
  std::vector<char> buffer(1 << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    digest.update(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  return digest.finish();
}

}  // namespace weft
