#include "core/base/sha256.h"

// Uses OpenSSL's deprecated SHA-256 functions. The replacement in OpenSSL 3 looks algorithms up by
// name, which links 5 MiB of providers.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft {
namespace {

/// Incremental SHA-256.
class Digest final {
 public:
  Digest() { WEFT_CHECK(SHA256_Init(&context_) == 1); }
  void update(const void* bytes, std::size_t size) {
    WEFT_CHECK(SHA256_Update(&context_, bytes, size) == 1);
  }
  Mac bytes() {
    Mac bytes{};
    WEFT_CHECK(SHA256_Final(reinterpret_cast<unsigned char*>(bytes.data()), &context_) == 1);
    return bytes;
  }
  std::string finish() {
    std::string text;
    for (const std::byte byte : bytes())
      text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
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
    file.read(buffer.data(), buffer.size());
    digest.update(buffer.data(), file.gcount());
  }
  return digest.finish();
}

// Implemented here because OpenSSL's HMAC() would link its providers, see above.
Mac hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  std::array<std::byte, SHA256_CBLOCK> block{};
  if (key.size() > block.size()) {
    Digest digest;
    digest.update(key.data(), key.size());
    const Mac hashed = digest.bytes();
    std::copy(hashed.begin(), hashed.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  const auto keyed = [&block](std::byte pad) {
    auto padded = block;
    for (std::byte& byte : padded) byte ^= pad;
    Digest digest;
    digest.update(padded.data(), padded.size());
    return digest;
  };
  Digest inner = keyed(std::byte{0x36});
  inner.update(message.data(), message.size());
  const Mac hashed = inner.bytes();
  Digest outer = keyed(std::byte{0x5c});
  outer.update(hashed.data(), hashed.size());
  return outer.bytes();
}

Mac hmac_sha256(const Secret& key, std::string_view label,
                std::initializer_list<std::span<const std::byte>> parts) {
  std::vector<std::byte> message;
  const auto add = [&message](std::span<const std::byte> part) {
    for (int shift = 0; shift < 64; shift += 8)
      message.push_back(static_cast<std::byte>(part.size() >> shift));
    message.insert(message.end(), part.begin(), part.end());
  };
  add(std::as_bytes(std::span(label)));
  for (const auto& part : parts) add(part);
  return hmac_sha256(key.bytes(), message);
}

}  // namespace weft
