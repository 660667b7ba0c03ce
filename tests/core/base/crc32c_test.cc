#include "core/base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

#include "core/base/internal/crc32c_variants.h"

namespace weft {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32c, KnownSums) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8a9136aau) << "RFC 3720, 32 zeros";
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u)
      << "RFC 3720, 32 ones";
}

TEST(Crc32c, TheProcessorAndTheTablesAgree) {
  if (crc32c_of_processor() == nullptr) GTEST_SKIP() << "this processor has no instruction for it";
  std::mt19937_64 random(5);
  std::vector<std::byte> bytes(100000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (int round = 0; round < 300; ++round) {
    const std::size_t begin = random() % 100,
                      size = random() % (round % 3 == 0 ? bytes.size() - begin : 300);
    const auto part = std::span<const std::byte>(bytes).subspan(begin, size);
    ASSERT_EQ(crc32c_of_processor()(part), crc32c_by_table(part))
        << size << " bytes from " << begin;
  }
}

TEST(Crc32c, OneBitMatters) {
  std::vector<std::byte> bytes(20000, std::byte{7});
  const std::uint32_t sum = crc32c(bytes);
  for (std::size_t i = 0; i < bytes.size(); i += 777) {
    bytes[i] ^= std::byte{4};
    EXPECT_NE(crc32c(bytes), sum);
    bytes[i] ^= std::byte{4};
  }
}

}  // namespace
}  // namespace weft
