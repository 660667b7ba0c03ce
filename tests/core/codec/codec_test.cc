#include "core/codec/codec.h"

#include <gtest/gtest.h>

#include "core/base/philox.h"
#include "core/codec/error_codec.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

enum class Colour : std::uint8_t { kRed, kBlue };
enum class Free : std::uint16_t { kAny };

struct Inner {
  std::int32_t a = 0;
  std::string b;
  static constexpr auto fields = weft::fields(&Inner::a, &Inner::b);
  friend bool operator==(const Inner&, const Inner&) = default;
};

using Id = StrongId<struct CodecTestTag>;

struct Everything {
  bool flag = false;
  double number = 0;
  Colour colour = Colour::kRed;
  Free free = Free::kAny;
  Id id;
  std::chrono::milliseconds wait{0};
  std::vector<float> floats;
  std::vector<Inner> inners;
  std::vector<std::vector<std::int64_t>> nested;
  std::array<std::uint16_t, 3> triple{};
  std::optional<Inner> maybe;
  std::variant<std::monostate, Inner, std::string> choice;
  std::pair<int, std::string> pair;
  std::tuple<int, bool, std::string> tuple;
  std::map<std::string, std::vector<int>> map;
  std::set<int> set;
  static constexpr auto fields = weft::fields(
      &Everything::flag, &Everything::number, &Everything::colour, &Everything::free,
      &Everything::id, &Everything::wait, &Everything::floats, &Everything::inners,
      &Everything::nested, &Everything::triple, &Everything::maybe, &Everything::choice,
      &Everything::pair, &Everything::tuple, &Everything::map, &Everything::set);
  friend bool operator==(const Everything&, const Everything&) = default;
};

/// Class whose private members are encoded.
class Sealed {
 public:
  Sealed() = default;
  explicit Sealed(int value) : value_(value) {}
  int value() const { return value_; }

 private:
  int value_ = 0;

 public:
  static constexpr auto fields = weft::fields(&Sealed::value_);
};

struct RenamedInner {
  std::int32_t a = 0;
  std::string other;
  static constexpr auto fields = weft::fields(&RenamedInner::a, &RenamedInner::other);
};
struct SameAsInner {
  std::int32_t a = 0;
  std::string b;
  static constexpr auto fields = weft::fields(&SameAsInner::a, &SameAsInner::b);
};
struct RetypedInner {
  std::uint32_t a = 0;
  std::string b;
  static constexpr auto fields = weft::fields(&RetypedInner::a, &RetypedInner::b);
};
struct Empty {
  static constexpr auto fields = std::tuple<>();
  friend bool operator==(const Empty&, const Empty&) = default;
};

}  // namespace

template <>
struct last_enumerator<Colour> {
  static constexpr Colour kValue = Colour::kBlue;
};

namespace {

Everything sample() {
  Everything e;
  e.flag = true;
  e.number = -2.5;
  e.colour = Colour::kBlue;
  e.free = static_cast<Free>(777);
  e.id = Id(42);
  e.wait = std::chrono::milliseconds(-5);
  e.floats = {1.f, 2.f};
  e.inners = {{1, "one"}, {2, ""}};
  e.nested = {{}, {1, 2, 3}};
  e.triple = {7, 8, 9};
  e.maybe = Inner{3, "three"};
  e.choice = std::string("choice");
  e.pair = {4, "four"};
  e.tuple = {5, true, "five"};
  e.map = {{"x", {1}}, {"y", {}}};
  e.set = {1, 5, 9};
  return e;
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Codec, EveryKindOfValueComesBackEqual) {
  EXPECT_EQ(decode<Everything>(encode(sample())), sample());
}

TEST(Codec, PrivateMembersTravel) { EXPECT_EQ(decode<Sealed>(encode(Sealed(9))).value(), 9); }

TEST(Codec, TheFormatIsLittleEndianWithoutPadding) {
  EXPECT_EQ(encode(Inner{0x01020304, "hi"}), bytes_of({4, 3, 2, 1, 2, 0, 0, 0, 'h', 'i'}));
}

TEST(Codec, ErrorsAndOutcomesTravelWhole) {
  const Error error = Error(ErrorCode::kPeerDied, "gone").at("here").from("node", "actor");
  EXPECT_EQ(decode<Error>(encode(error)), error);
  const auto failed = decode<Outcome<int>>(encode(Outcome<int>(error)));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error(), error);
  EXPECT_EQ(decode<Outcome<int>>(encode(Outcome<int>(3))).value(), 3);
  for (int code = 1; is_error_code(code); ++code) {
    const Error of_code(static_cast<ErrorCode>(code), "text");
    EXPECT_EQ(decode<Error>(encode(of_code)), of_code) << code;
  }
}

TEST(Codec, EveryTruncationIsAnError) {
  const auto bytes = encode(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THAT([&] { (void)decode<Everything>(std::span(bytes).first(size)); },
                test::throws_error(ErrorCode::kDataLoss, "damaged bytes"))
        << size;
}

TEST(Codec, BytesLeftOverAreAnError) {
  auto bytes = encode(sample());
  bytes.push_back(std::byte{0});
  EXPECT_THAT([&] { (void)decode<Everything>(bytes); },
              test::throws_error(ErrorCode::kDataLoss, "1 bytes are left over"));
}

TEST(Codec, AnnouncedCountsAreCheckedBeforeMemoryIsTaken) {
  const auto huge = bytes_of({255, 255, 255, 255, 1, 2, 3});
  EXPECT_THAT([&] { (void)decode<std::string>(huge); },
              test::throws_error(ErrorCode::kDataLoss, "a count of 4294967295 elements"));
  EXPECT_THAT([&] { (void)decode<std::vector<double>>(huge); },
              test::throws_error(ErrorCode::kDataLoss, "a count of 4294967295 elements"));
  EXPECT_THAT([&] { (void)decode<std::vector<Everything>>(huge); },
              test::throws_error(ErrorCode::kDataLoss, "a count of 4294967295 elements"));
  EXPECT_THAT([&] { (void)decode<std::vector<Empty>>(huge); },
              test::throws_error(ErrorCode::kDataLoss, "a count of 4294967295 elements"));
  EXPECT_THAT([&] { (void)(decode<std::map<int, int>>(huge)); },
              test::throws_error(ErrorCode::kDataLoss, "a count of 4294967295 elements"));
}

TEST(Codec, ValuesThatDoNotExistAreErrors) {
  EXPECT_THAT([&] { (void)decode<bool>(bytes_of({2})); },
              test::throws_error(ErrorCode::kDataLoss, "a bool that is neither 0 nor 1"));
  EXPECT_THAT([&] { (void)decode<Colour>(bytes_of({2})); },
              test::throws_error(ErrorCode::kDataLoss, "an enumerator that does not exist"));
  EXPECT_THAT(
      [&] {
        (void)(decode<std::variant<int, bool>>(bytes_of({2, 0, 0, 0, 0})));
      },
      test::throws_error(ErrorCode::kDataLoss, "a variant alternative that does not exist"));
  EXPECT_THAT(
      [&] {
        (void)decode<std::set<std::uint8_t>>(bytes_of({2, 0, 0, 0, 5, 5}));
      },
      test::throws_error(ErrorCode::kDataLoss, "a set with the same element twice"));
  EXPECT_THAT(
      [&] {
        (void)decode<Error>(bytes_of({99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
      },
      test::throws_error(ErrorCode::kDataLoss, "an error code that does not exist"));
}

TEST(Codec, DamagedBytesGiveAValueOrAnErrorAndNothingElse) {
  constexpr std::uint64_t kSeed = 20260101;
  SCOPED_TRACE(kSeed);
  PhiloxStream random(kSeed);
  const auto good = encode(sample());
  int errors = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = good;
    const auto damage = 1 + random.below(4);
    for (std::uint64_t i = 0; i < damage; ++i)
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    if (random.below(4) == 0) bytes.resize(random.below(bytes.size()));
    try {
      const auto value = decode<Everything>(bytes);
      EXPECT_EQ(decode<Everything>(encode(value)).inners.size(), value.inners.size());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      ++errors;
    }
  }
  EXPECT_GT(errors, 1000);
}

TEST(Codec, RandomBytesGiveAValueOrAnErrorAndNothingElse) {
  PhiloxStream random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(random.below(300));
    for (auto& byte : bytes) byte = static_cast<std::byte>(random.below(8));
    try {
      (void)decode<std::vector<Everything>>(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    }
  }
}

TEST(TypeFingerprint, CoversNamesAndTypesOfFieldsButNotTheNameOfTheStruct) {
  static_assert(type_fingerprint<Inner>() == type_fingerprint<SameAsInner>());
  static_assert(type_fingerprint<Inner>() != type_fingerprint<RenamedInner>());
  static_assert(type_fingerprint<Inner>() != type_fingerprint<RetypedInner>());
  static_assert(type_fingerprint<std::vector<int>>() != type_fingerprint<std::vector<float>>());
  static_assert(type_fingerprint<std::chrono::seconds>() !=
                type_fingerprint<std::chrono::milliseconds>());
  static_assert(member_name<&Inner::a>() == "a");
}

}  // namespace
}  // namespace weft
