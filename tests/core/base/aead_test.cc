#include "core/base/aead.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace weft {
namespace {

using Bytes = std::vector<std::byte>;
using Cipher = Aead::Cipher;

Bytes from_hexadecimal(std::string_view digits) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(
        static_cast<std::byte>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  return bytes;
}

template <typename Array>
Array array_of(std::string_view digits) {
  const Bytes bytes = from_hexadecimal(digits);
  Array array{};
  std::copy(bytes.begin(), bytes.end(), array.begin());
  return array;
}

Bytes random_bytes(std::size_t size, std::uint64_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i + 1 + seed * 1000) * 0x9e3779b97f4a7c15ull >> 17);
  return bytes;
}

/// Returns the ciphers that this processor supports.
std::vector<Cipher> ciphers() {
  if (!Aead::has_aes()) return {Cipher::kChaCha20Poly1305};
  return {Cipher::kAes256Gcm, Cipher::kChaCha20Poly1305};
}

/// Vectors: test cases 13, 14 and 16 of McGrew and Viega, "The Galois/Counter Mode of Operation",
/// and RFC 8439, 2.8.2.
TEST(Aead, MatchesTheVectorsOfItsSpecification) {
  constexpr Cipher kAes = Cipher::kAes256Gcm, kChaCha = Cipher::kChaCha20Poly1305;
  struct Case {
    Cipher cipher;
    std::string_view key, nonce, header, plain, sealed, tag;
  };
  for (const Case& each : {
           Case{kAes, "0000000000000000000000000000000000000000000000000000000000000000",
                "000000000000000000000000", "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
           Case{kAes, "0000000000000000000000000000000000000000000000000000000000000000",
                "000000000000000000000000", "", "00000000000000000000000000000000",
                "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
           Case{kAes, "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
                "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
                "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532f"
                "cf0e2449a6b525b16aedf5aa0de657ba637b39",
                "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7"
                "b08b1056828838c5f61e6393ba7a0abcc9f662",
                "76fc6ece0f4e1768cddf8853bb2d551b"},
           Case{kChaCha, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
                "070000004041424344454647", "50515253c0c1c2c3c4c5c6c7",
                "4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a"
                "204966204920636f756c64206f6666657220796f75206f6e6c79206f6e652074697020666f72207468"
                "65206675747572652c2073756e73637265656e20776f756c642062652069742e",
                "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282"
                "fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab3"
                "24e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b6116",
                "1ae10b594f09e26a7e902ecbd0600691"},
       }) {
    if (each.cipher == kAes && !Aead::has_aes()) continue;
    Aead cipher(each.cipher, array_of<Aead::Key>(each.key));
    const auto nonce = array_of<Aead::Nonce>(each.nonce);
    const Bytes header = from_hexadecimal(each.header), plain = from_hexadecimal(each.plain);
    Bytes bytes(plain.size());
    const Aead::Tag tag = cipher.seal(nonce, header, plain, bytes.data());
    EXPECT_EQ(bytes, from_hexadecimal(each.sealed));
    EXPECT_EQ(tag, array_of<Aead::Tag>(each.tag));
    ASSERT_TRUE(cipher.open(nonce, header, bytes, tag, bytes.data()));  // decrypts in place
    EXPECT_EQ(bytes, plain);
  }
}

void expect_opens_what_was_sealed(Cipher chosen) {
  Aead cipher(chosen, array_of<Aead::Key>("0123456789abcdef"));
  Aead another(chosen, array_of<Aead::Key>("0123456789abcdee"));
  const Bytes header = random_bytes(4, 1);
  for (const std::size_t size : {1u, 15u, 16u, 17u, 63u, 64u, 127u, 128u, 129u, 1000u, 65536u}) {
    SCOPED_TRACE(size);
    const Bytes plain = random_bytes(size, size);
    Aead::Nonce nonce{};
    nonce[0] = static_cast<std::byte>(size);
    Bytes sealed(size), opened(size);
    const Aead::Tag tag = cipher.seal(nonce, header, plain, sealed.data());
    ASSERT_TRUE(cipher.open(nonce, header, sealed, tag, opened.data()));
    EXPECT_EQ(opened, plain);
    EXPECT_FALSE(another.open(nonce, header, sealed, tag, opened.data()));
    Aead::Nonce next = nonce;
    next[1] = std::byte{1};
    EXPECT_FALSE(cipher.open(next, header, sealed, tag, opened.data()));
    const Bytes other_header = random_bytes(4, 2);
    EXPECT_FALSE(cipher.open(nonce, other_header, sealed, tag, opened.data()));
    Bytes changed = sealed;
    changed[size / 2] ^= std::byte{1};
    EXPECT_FALSE(cipher.open(nonce, header, changed, tag, opened.data()));
    Aead::Tag other_tag = tag;
    other_tag[15] ^= std::byte{0x80};
    EXPECT_FALSE(cipher.open(nonce, header, sealed, other_tag, opened.data()));
    // Encrypts and decrypts in place.
    Bytes bytes = plain;
    EXPECT_EQ(cipher.seal(nonce, header, bytes, bytes.data()), tag);
    EXPECT_EQ(bytes, sealed);
    EXPECT_TRUE(cipher.open(nonce, header, bytes, tag, bytes.data()));
    EXPECT_EQ(bytes, plain);
  }
}

TEST(Aead, OpensOnlySealedMessages) {
  for (const Cipher cipher : ciphers()) expect_opens_what_was_sealed(cipher);
}

TEST(Aead, TwoProcessesUseAesWhereBothHaveIt) {
  EXPECT_EQ(Aead::choose(true, true), Cipher::kAes256Gcm);
  EXPECT_EQ(Aead::choose(true, false), Cipher::kChaCha20Poly1305);
  EXPECT_EQ(Aead::choose(false, true), Cipher::kChaCha20Poly1305);
  EXPECT_EQ(Aead::choose(false, false), Cipher::kChaCha20Poly1305);
}

}  // namespace
}  // namespace weft
