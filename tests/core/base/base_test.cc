#include <gtest/gtest.h>

#include <cstring>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/name.h"
#include "core/base/outcome.h"
#include "core/base/philox.h"
#include "core/base/sha256.h"
#include "core/base/strong_id.h"
#include "core/base/units.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

TEST(Error, DescribesCodePlaceAndOrigin) {
  const Error error =
      Error(ErrorCode::kPeerDied, "it is gone").at("step 3").from("host1", "trainer[0]");
  EXPECT_EQ(error.describe(), "peer died: it is gone (at step 3; from trainer[0] on host1)");
  EXPECT_EQ(Error(ErrorCode::kPeerDied, "it is gone").from("a[x=0]", "a[x=0]").describe(),
            "peer died: it is gone (from a[x=0])");
  EXPECT_STREQ(error.what(), "it is gone");
}

TEST(Error, AnyExceptionBecomesAnError) {
  try {
    throw std::runtime_error("boom");
  } catch (...) {
    EXPECT_EQ(current_error(), Error(ErrorCode::kInternal, "boom"));
  }
}

TEST(Outcome, ThrowsItsErrorWhenThereIsNoValue) {
  EXPECT_EQ(Outcome<int>(3).value(), 3);
  EXPECT_THAT([&] { Outcome<int>(Error(ErrorCode::kNotFound, "no")).value(); },
              test::throws_error(ErrorCode::kNotFound, "no"));
}

TEST(Check, EndsTheProcessAndSaysWhy) {
  const int a = 1;
  EXPECT_DEATH(WEFT_CHECK(a == 2, "a is {}", a), "CHECK failed: a == 2 \\(a is 1\\)");
}

// Known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10).
TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(philox(0, 0, 0),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Sha256, MatchesThePublishedVector) {
  const char* text = "abc";
  EXPECT_EQ(sha256(std::as_bytes(std::span(text, std::strlen(text)))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Name, IsOnePlainPartOfAPath) {
  for (const char* good : {"a", "worker-0", "Front_2.b", "0"}) EXPECT_TRUE(is_name(good)) << good;
  for (const char* bad :
       {"", ".", "..", ".a", "-a", "a/b", "../../etc/x y", "a b", "a\n", "\xc3\xa4"})
    EXPECT_FALSE(is_name(bad)) << bad;
  EXPECT_TRUE(is_name(std::string(100, 'a')));
  EXPECT_FALSE(is_name(std::string(101, 'a')));
  EXPECT_THAT(
      [&] { check_name("a host", "../x"); },
      test::throws_error(ErrorCode::kInvalidArgument, "a host: expected a name of at most 100"));
}

// RFC 4231, test cases 2 and 6: a short key, and one longer than a block.
TEST(Hmac, MatchesThePublishedVectors) {
  const auto hex = [](const Mac& mac) { return Secret(mac).hexadecimal(); };
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(hex(hmac_sha256(bytes("Jefe"), bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(bytes(std::string(131, '\xaa')),
                            bytes("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  const Secret key = Secret::random();
  EXPECT_NE(hmac_sha256(key, "a", {bytes("bc"), bytes("d")}),
            hmac_sha256(key, "a", {bytes("b"), bytes("cd")}));
}

TEST(Secret, ComesBackFromItsFileAndIsComparedWhole) {
  const Secret secret = Secret::random();
  EXPECT_FALSE(secret.empty());
  EXPECT_TRUE(Secret().empty());
  EXPECT_EQ(Secret::parse(secret.hexadecimal()).bytes(), secret.bytes());
  for (const std::string& bad : {std::string(), std::string(63, 'a'), std::string(64, 'g'),
                                 std::string(64, '0'), std::string(65, 'a')})
    EXPECT_THAT([&] { Secret::parse(bad); },
                test::throws_error(ErrorCode::kInvalidArgument, "expected 64 hexadecimal digits"))
        << bad;
  auto other = secret.bytes();
  EXPECT_TRUE(equal_in_constant_time(other, secret.bytes()));
  other[31] ^= std::byte{1};
  EXPECT_FALSE(equal_in_constant_time(other, secret.bytes()));
  EXPECT_FALSE(equal_in_constant_time(std::span(other).first(31), secret.bytes()));
}

TEST(Units, PickTheReadableUnit) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(64ull << 20), "64 MiB");
  EXPECT_EQ(format_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(format_seconds(185), "3 min 05 s");
}

TEST(Units, ARateIsANumberAndItsUnit) {
  EXPECT_DOUBLE_EQ(parse_rate("250mbit").value(), 31.25e6);
  EXPECT_DOUBLE_EQ(parse_rate("1.5MiB").value(), 1.5 * 1048576);
  for (const char* wrong : {"", "100", "-1gbit", "0mbit", "gbit", "1 gbit", "infmbit", "1mbits"})
    EXPECT_FALSE(parse_rate(wrong)) << wrong;
}

}  // namespace
}  // namespace weft
