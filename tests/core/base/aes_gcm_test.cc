#include "core/base/aes_gcm.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "core/base/internal/aes_variants.h"

namespace weft {
namespace {

using Bytes = std::vector<std::byte>;

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

/// Test cases 13, 14 and 16 of McGrew and Viega, "The Galois/Counter Mode of Operation".
TEST(AesGcm, GivesWhatItsSpecificationGives) {
  struct Case {
    std::string_view key, nonce, header, plain, sealed, tag;
  };
  for (const Case& each : {
           Case{"0000000000000000000000000000000000000000000000000000000000000000",
                "000000000000000000000000", "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
           Case{"0000000000000000000000000000000000000000000000000000000000000000",
                "000000000000000000000000", "", "00000000000000000000000000000000",
                "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
           Case{"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
                "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
                "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532f"
                "cf0e2449a6b525b16aedf5aa0de657ba637b39",
                "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7"
                "b08b1056828838c5f61e6393ba7a0abcc9f662",
                "76fc6ece0f4e1768cddf8853bb2d551b"},
       }) {
    AesGcm cipher(array_of<AesGcm::Key>(each.key));
    const auto nonce = array_of<AesGcm::Nonce>(each.nonce);
    const Bytes header = from_hexadecimal(each.header), plain = from_hexadecimal(each.plain);
    Bytes bytes(plain.size());
    const AesGcm::Tag tag = cipher.seal(nonce, header, plain, bytes.data());
    EXPECT_EQ(bytes, from_hexadecimal(each.sealed));
    EXPECT_EQ(tag, array_of<AesGcm::Tag>(each.tag));
    ASSERT_TRUE(cipher.open(nonce, header, bytes, tag, bytes.data()));  // where they lie
    EXPECT_EQ(bytes, plain);
  }
}

TEST(AesGcm, OpensWhatWasSealedAndNothingElse) {
  AesGcm cipher(array_of<AesGcm::Key>("0123456789abcdef"));
  AesGcm another(array_of<AesGcm::Key>("0123456789abcdee"));
  const Bytes header = random_bytes(4, 1);
  for (const std::size_t size : {1u, 15u, 16u, 17u, 63u, 64u, 127u, 128u, 129u, 1000u, 65536u}) {
    SCOPED_TRACE(size);
    const Bytes plain = random_bytes(size, size);
    AesGcm::Nonce nonce{};
    nonce[0] = static_cast<std::byte>(size);
    Bytes sealed(size), opened(size);
    const AesGcm::Tag tag = cipher.seal(nonce, header, plain, sealed.data());
    ASSERT_TRUE(cipher.open(nonce, header, sealed, tag, opened.data()));
    EXPECT_EQ(opened, plain);
    EXPECT_FALSE(another.open(nonce, header, sealed, tag, opened.data()));
    AesGcm::Nonce next = nonce;
    next[1] = std::byte{1};
    EXPECT_FALSE(cipher.open(next, header, sealed, tag, opened.data()));
    const Bytes other_header = random_bytes(4, 2);
    EXPECT_FALSE(cipher.open(nonce, other_header, sealed, tag, opened.data()));
    Bytes changed = sealed;
    changed[size / 2] ^= std::byte{1};
    EXPECT_FALSE(cipher.open(nonce, header, changed, tag, opened.data()));
    AesGcm::Tag other_tag = tag;
    other_tag[15] ^= std::byte{0x80};
    EXPECT_FALSE(cipher.open(nonce, header, sealed, other_tag, opened.data()));
  }
}

TEST(AesGcm, TheProcessorsInstructionsDoWhatTheTableDoes) {
  const Aes* const fast = aes_of_processor();
  if (fast == nullptr) GTEST_SKIP() << "this processor has no AES instructions";
  const Aes& slow = aes_by_table();
  std::array<unsigned char, 32> key{};
  std::array<unsigned char, 16> first{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<unsigned char>(i * 37 + 1);
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<unsigned char>(200 + i);
  first[12] = first[13] = first[14] = 0xff;  // the counter runs over
  first[15] = 0xfa;
  AesRoundKeys slow_keys, fast_keys;
  slow.expand(key.data(), slow_keys);
  fast->expand(key.data(), fast_keys);
  for (std::size_t blocks = 0; blocks < 40; ++blocks) {
    SCOPED_TRACE(blocks);
    std::vector<unsigned char> in(16 * blocks, 0x5a), one(in.size()), other(in.size());
    slow.count(in.data(), one.data(), blocks, &slow_keys, first.data());
    fast->count(in.data(), other.data(), blocks, &fast_keys, first.data());
    EXPECT_EQ(one, other);
  }
  std::array<unsigned char, 16> one{}, other{};
  slow.encrypt(first.data(), one.data(), &slow_keys);
  fast->encrypt(first.data(), other.data(), &fast_keys);
  EXPECT_EQ(one, other);
}

}  // namespace
}  // namespace weft
