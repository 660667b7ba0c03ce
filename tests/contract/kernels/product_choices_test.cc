// Tests the file that keeps the fastest algorithms of matrix products.
#include "core/cuda/internal/product_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace weft::test {
namespace {

using cuda::parse_product_choices;
using cuda::ProductAlgorithm;
using cuda::ProductChoice;
using cuda::ProductChoiceFile;
using cuda::ProductChoiceMap;
using cuda::to_json_lines;
using testing::HasSubstr;

bool accept_all(const ProductChoice&) { return true; }

TEST(ProductChoices, SurviveTheirTextForm) {
  const ProductChoiceMap choices{
      {"H200, 8 x 8 x 8", {.algorithm = ProductAlgorithm{1, 0xfedcba9876543210, 3}}},
      {"H200, \"16\"\n", {.algorithm = std::nullopt, .microseconds = 12.25}}};
  const cuda::ReadChoices read = parse_product_choices(to_json_lines(choices));
  EXPECT_EQ(read.choices, choices);
  EXPECT_EQ(read.damaged_lines, 0);
}

TEST(ProductChoices, OfDamagedLinesAreIgnored) {
  const std::string sound = to_json_lines({{"a", {.algorithm = ProductAlgorithm{7}}}});
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = sound;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& damaged :
       {changed("\"a\"", "\"b\""), changed("7", "8"), changed("7", "x"), changed("000", ""),
        changed("crc32c", "crc"), changed("{", "["), std::string("5\n"), std::string("null\n"),
        sound.substr(0, sound.size() / 2) + "\n"}) {
    const cuda::ReadChoices read =
        parse_product_choices(damaged + to_json_lines({{"c", {.algorithm = std::nullopt}}}));
    EXPECT_EQ(read.damaged_lines, 1) << damaged;
    EXPECT_THAT(read.choices, testing::ElementsAre(testing::Key("c"))) << damaged;
  }
}

TEST(ProductChoices, OfTheFirstLineForAProductCount) {
  const ProductChoice first{.algorithm = ProductAlgorithm{1}}, second{.algorithm = std::nullopt};
  EXPECT_EQ(
      parse_product_choices(to_json_lines({{"a", first}}) + to_json_lines({{"a", second}})).choices,
      (ProductChoiceMap{{"a", first}}));
}

class ProductChoiceFileTest : public testing::Test {
 protected:
  ProductChoiceFile file() {
    return {path_, [this](const std::string& note) { notes_.push_back(note); }};
  }
  ScratchFolder scratch_;
  const std::filesystem::path path_ = scratch_.path() / "new" / "folders" / "choices.jsonl";
  std::vector<std::string> notes_;
};

TEST_F(ProductChoiceFileTest, KeepsTheFirstChoice) {
  const ProductChoice first{.algorithm = ProductAlgorithm{1}, .microseconds = 5},
      second{.algorithm = std::nullopt, .microseconds = 4};
  ProductChoiceFile one = file(), other = file();
  EXPECT_EQ(other.find("a", accept_all), std::nullopt);
  EXPECT_EQ(one.find_or_store("a", accept_all, [&] { return first; }), first);
  EXPECT_EQ(other.find_or_store("a", accept_all, [&] { return second; }), first);
  EXPECT_EQ(other.find_or_store("b", accept_all, [&] { return second; }), second);
  EXPECT_EQ(file().find("a", accept_all), first);
  EXPECT_EQ(file().find("b", accept_all), second);
  EXPECT_THAT(notes_, testing::IsEmpty());
}

TEST_F(ProductChoiceFileTest, StoresNoMissingChoice) {
  EXPECT_EQ(file().find_or_store("a", accept_all, [] { return std::nullopt; }), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ProductChoiceFileTest, GivesOneChoiceToUsersAtTheSameTime) {
  constexpr int kUsers = 4, kProducts = 8;
  std::atomic<int> measured = 0;
  std::vector<std::vector<ProductChoice>> found(kUsers);
  std::vector<std::jthread> users;
  for (int user = 0; user < kUsers; ++user) {
    users.emplace_back([&, user] {
      ProductChoiceFile choices(path_, [](const std::string& note) { ADD_FAILURE() << note; });
      for (int product = 0; product < kProducts; ++product) {
        const auto choice =
            choices.find_or_store(std::to_string(product), accept_all, [&]() -> ProductChoice {
              ++measured;
              return {.algorithm = ProductAlgorithm{static_cast<std::uint64_t>(user)}};
            });
        found[user].push_back(choice.value());
      }
    });
  }
  users.clear();
  EXPECT_EQ(measured, kProducts);
  for (const auto& choices : found) EXPECT_EQ(choices, found[0]);
}

TEST_F(ProductChoiceFileTest, IsNotUsedAnyMoreAfterAFailedWrite) {
  std::filesystem::create_directories(path_);  // a folder has the file's name
  ProductChoiceFile choices = file();
  const ProductChoice choice{.algorithm = std::nullopt};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(choices.find("a", accept_all), std::nullopt);
    EXPECT_EQ(choices.find_or_store("a", accept_all, [&] { return choice; }), std::nullopt);
  }
  EXPECT_FALSE(choices.usable());
  EXPECT_THAT(notes_,
              testing::ElementsAre(HasSubstr("the choices of matrix products are not stored: ")));
}

TEST_F(ProductChoiceFileTest, OfMoreThanItsLimitIsNotRead) {
  std::filesystem::create_directories(path_.parent_path());
  std::ofstream(path_) << std::string((std::size_t{8} << 20) + 1, '\n');
  ProductChoiceFile choices = file();
  EXPECT_EQ(choices.find("a", accept_all), std::nullopt);
  EXPECT_THAT(notes_, testing::ElementsAre(HasSubstr("it is larger than 8 MiB; remove it")));
}

}  // namespace
}  // namespace weft::test
