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

namespace weft {
namespace {

TEST(Error, DescribesCodePlaceAndOrigin) {
  const Error error = Error(ErrorCode::kPeerDied, "it is gone").at("step 3").from("host1", "trainer[0]");
  EXPECT_EQ(error.describe(), "peer died: it is gone (at step 3; from trainer[0] on host1)");
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
  EXPECT_THROW(Outcome<int>(Error(ErrorCode::kNotFound, "no")).value(), Error);
}

TEST(Check, EndsTheProcessAndSaysWhy) {
  const int a = 1;
  EXPECT_DEATH(WEFT_CHECK(a == 2, "a is {}", a), "CHECK failed: a == 2 \\(a is 1\\)");
}

// Known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10).
TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(philox(0, 0, 0), (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Sha256, MatchesThePublishedVector) {
  const char* text = "abc";
  EXPECT_EQ(sha256(std::as_bytes(std::span(text, std::strlen(text)))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Name, IsOnePlainPartOfAPath) {
  for (const char* good : {"a", "worker-0", "Front_2.b", "0"}) EXPECT_TRUE(is_name(good)) << good;
  for (const char* bad : {"", ".", "..", ".a", "-a", "a/b", "../../etc/x y", "a b", "a\n", "\xc3\xa4"})
    EXPECT_FALSE(is_name(bad)) << bad;
  EXPECT_TRUE(is_name(std::string(100, 'a')));
  EXPECT_FALSE(is_name(std::string(101, 'a')));
  EXPECT_THROW(check_name("a host", "../x"), Error);
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
