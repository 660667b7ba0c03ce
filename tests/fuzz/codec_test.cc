#include "core/codec/codec.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tensor/region_codec.h"
#include "mesh/program/program.h"
#include "tests/fuzz/allocation_limit.h"
#include "tests/fuzz/mutator.h"

namespace weft {
namespace {

enum class Colour : std::uint8_t { kRed, kGreen };

/// Struct with a member of every kind that the codec supports.
struct Everything {
  bool flag = false;
  Colour colour = Colour::kRed;
  double number = 0;
  std::string text;
  std::vector<std::uint32_t> words;
  std::vector<std::string> names;
  std::array<std::int16_t, 3> three{};
  std::optional<std::vector<std::int8_t>> bits;
  std::variant<std::int64_t, std::string, std::vector<double>> choice;
  std::map<std::string, std::vector<std::pair<int, std::string>>> table;
  std::set<std::uint64_t> ids;
  std::tuple<std::string, std::chrono::nanoseconds> timed;
  Region region;
  static constexpr auto fields =
      weft::fields(&Everything::flag, &Everything::colour, &Everything::number, &Everything::text,
                   &Everything::words, &Everything::names, &Everything::three, &Everything::bits,
                   &Everything::choice, &Everything::table, &Everything::ids, &Everything::timed,
                   &Everything::region);
};

Everything everything() {
  return {.flag = true,
          .colour = Colour::kGreen,
          .number = -0.5,
          .text = "the thread that crosses the warp",
          .words = {1, 2, 3, 4, 5},
          .names = {"", "front", "back"},
          .three = {-1, 0, 1},
          .bits = std::vector<std::int8_t>{1, 0, -1},
          .choice = std::vector<double>{1, 2},
          .table = {{"a", {{1, "x"}, {2, "y"}}}, {"b", {}}},
          .ids = {7, 9, 11},
          .timed = {"later", std::chrono::seconds(3)},
          .region = Region({{0, 4}, {2, 6}})};
}

/// Decodes damaged copies of `sound`. Each is refused as kDataLoss, or yields a value that encodes
/// and decodes unchanged.
template <typename T>
void survives_damage(const T& sound, int rounds) {
  const std::vector<std::byte> bytes = encode(sound);
  test::Mutator mutator(1);
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const auto damaged = mutator.damage(bytes);
    const test::AllocationLimit limit(256 * damaged.size() + 65536);
    try {
      const auto again = encode(decode<T>(damaged));
      ASSERT_EQ(encode(decode<T>(again)), again);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 4);
  EXPECT_LT(refused, rounds);
}

TEST(CodecFuzz, AnyDamageToEveryKindOfValueIsRefusedOrHarmless) {
  survives_damage(everything(), 20'000);
}

TEST(CodecFuzz, AnyDamageToAProgramIsRefusedOrHarmless) {
  mesh::Program program;
  program.persistents = {{"wte", 4096}, {"wte.gradient", 4096}};
  program.buffers.resize(3);
  survives_damage(program, 10'000);
}

}  // namespace
}  // namespace weft
