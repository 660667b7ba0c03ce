#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/config/config_document.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ConfigDocument parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return ConfigDocument::parse(text, "run.yaml", overrides);
}

enum class Schedule { kGpipe, kOneF1B };
const EnumNames<Schedule> kSchedules = {{"gpipe", Schedule::kGpipe}, {"1f1b", Schedule::kOneF1B}};

TEST(Config, ReadsEveryTypeInPlace) {
  const auto document = parse(
      "name: a run\nsteps: 300\nrate: 1e-3\nfast: true\nwait: 250ms\nlimit: 1.5MiB\nhosts: [a, "
      "'b']\n"
      "schedule: 1f1b\nempty:\nshape: {data: 2, tensor: 1}\n");
  const ConfigNode root = document.root();
  std::string name;
  int steps = 0;
  double rate = 0;
  bool fast = false;
  Nanoseconds wait{};
  std::uint64_t limit = 0;
  std::vector<std::string> hosts;
  Schedule schedule = Schedule::kGpipe;
  std::optional<int> empty;
  EXPECT_TRUE(root.require("name", name));
  EXPECT_TRUE(root.read("steps", steps, {.min = 1}));
  root.read("rate", rate);
  root.read("fast", fast);
  root.read("wait", wait);
  root.read_bytes("limit", limit);
  root.read("hosts", hosts);
  root.read_enum("schedule", schedule, kSchedules);
  EXPECT_FALSE(root.read("empty", empty));
  std::vector<std::string> axes;
  for (const auto& [axis, size] : root.at("shape").entries())
    axes.push_back(axis + "=" + std::to_string(size.as<int>()));
  document.finish();
  EXPECT_EQ(name, "a run");
  EXPECT_EQ(steps, 300);
  EXPECT_EQ(rate, 1e-3);
  EXPECT_TRUE(fast);
  EXPECT_EQ(wait, std::chrono::milliseconds(250));
  EXPECT_EQ(limit, 1536u * 1024);
  EXPECT_THAT(hosts, ElementsAre("a", "b"));
  EXPECT_EQ(schedule, Schedule::kOneF1B);
  EXPECT_EQ(empty, std::nullopt);
  EXPECT_THAT(axes, ElementsAre("data=2", "tensor=1"));
}

TEST(Config, ATabAndAnEmptyOverrideAreBlamedOnWhatTheyAre) {
  EXPECT_THAT([&] { ConfigDocument::parse("a:\n\tb: 1\n", "run.yaml"); },
              test::throws_error(ErrorCode::kInvalidConfig, "indented with spaces"));
  const std::vector<std::string> empty = {"a.b="};
  const auto document = ConfigDocument::parse("a:\n  b: 1\n", "run.yaml", empty);
  int b = 0;
  document.root().at("a").require("b", b);
  EXPECT_THAT(
      [&] { document.finish(); },
      test::throws_error(ErrorCode::kInvalidConfig,
                         ::testing::StartsWith("command line: --set a.b=: 'b' has no value")));
}

TEST(Config, NothingIsNothingInAnyUnit) {
  const auto document = parse("a: 0\nb: 0B\nc: 0GiB\n");
  for (const char* key : {"a", "b", "c"}) {
    std::uint64_t bytes = 1;
    EXPECT_TRUE(document.root().read_bytes(key, bytes));
    EXPECT_EQ(bytes, 0u) << key;
  }
  std::uint64_t bytes = 7;
  document.root().read_bytes("a", bytes, {.min = 1});
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidConfig, [&] { document.finish(); }),
            "run.yaml:1:4: a: expected a size of at least 1 B, found '0'");
}

TEST(Config, UnknownKeyNamesPlaceAndNearestKey) {
  const auto document = parse("pipeline:\n  microbatchs: 8\n");
  int microbatches = 4;
  document.root().at("pipeline").read("microbatches", microbatches);
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidConfig, [&] { document.finish(); }),
            "run.yaml:2:3: unknown key 'microbatchs' in pipeline; did you mean 'microbatches'?");
}

TEST(Config, RequiredKeyThatIsMisspeltIsReportedWhereItStands) {
  const auto document = parse("pipeline:\n  stagse: []\n");
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidConfig,
                                [&] { document.root().at("pipeline").at("stages"); }),
            "run.yaml:2:3: unknown key 'stagse' in pipeline; did you mean 'stages'?");
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidConfig,
                                [&] { document.root().at("pipeline").at("mesh"); }),
            "run.yaml:2:3: pipeline needs the key 'mesh'");
}

TEST(Config, UnknownKeyWithoutANearOneListsWhatIsKnown) {
  const auto document = parse("steps: 1\ncolour: red\n");
  int steps = 0;
  document.root().read("steps", steps);
  document.root().exclude_key("model");
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidConfig, [&] { document.finish(); }),
            "run.yaml:2:1: unknown key 'colour'; known here: steps, model");
}

TEST(Config, WrongTypesSayWhatWasExpectedAndFound) {
  const auto document =
      parse("a: ten\nb: 0\nc: {x: 1}\nd: '3'\ne: 5\nf: yes\ng: 1f1bb\nh: 3\ni: 300\n");
  const ConfigNode root = document.root();
  int a = 7;
  std::vector<int> c;
  Nanoseconds e{};
  bool f = false;
  Schedule g = Schedule::kGpipe;
  std::uint8_t i = 0;
  std::uint64_t h = 0;
  root.read("a", a);
  root.read("b", a, {.min = 1, .max = 5});
  root.read("c", c);
  root.read("d", a);
  root.read("e", e);
  root.read("f", f);
  root.read_enum("g", g, kSchedules);
  root.read_bytes("h", h);
  root.read("i", i);
  EXPECT_EQ(
      test::error_message(ErrorCode::kInvalidConfig, [&] { root.finish(); }),
      "run.yaml:1:4: a: expected a whole number, found 'ten'\n"
      "run.yaml:2:4: b: expected a whole number from 1 to 5, found '0'\n"
      "run.yaml:3:4: c: expected a list, such as [a, b], found a map of keys\n"
      "run.yaml:4:4: d: expected a whole number, found the text \"3\"\n"
      "run.yaml:5:4: e: expected a duration with its unit, such as 250ms, 5s, 2min, found '5'\n"
      "run.yaml:6:4: f: expected true or false, found 'yes'\n"
      "run.yaml:7:4: g: expected one of gpipe, 1f1b, found '1f1bb'; did you mean '1f1b'?\n"
      "run.yaml:8:4: h: expected a size with its unit, such as 64KiB, 1.5GiB, found '3'\n"
      "run.yaml:9:4: i: expected a whole number from 0 to 255, found '300'");
  EXPECT_EQ(a, 7) << "a variable keeps its default when its value is wrong";
}

TEST(Config, FinishOfASectionReportsOnlyThatSection) {
  const auto document = parse("one: {a: x}\ntwo: {b: 1}\n");
  int value = 0;
  document.root().at("one").read("a", value);
  const ConfigNode two = document.root().at("two");
  two.read("b", value);
  EXPECT_NO_THROW(two.finish());
  EXPECT_THAT([&] { document.root().at("one").finish(); },
              test::throws_error(ErrorCode::kInvalidConfig, "one.a: expected a whole number"));
}

TEST(Config, AttemptCollectsTheProblemsOfAllSections) {
  const auto document = parse("one: {a: x, zz: 1}\ntwo: {b: y}\n");
  for (const char* section : {"two", "one"}) {
    EXPECT_FALSE(document.try_section([&] {
      const ConfigNode node = document.root().at(section);
      int value = 0;
      node.read(std::string(section) == "one" ? "a" : "b", value);
      node.finish();
    }));
  }
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidConfig, [&] { document.finish(); }),
            "run.yaml:1:10: one.a: expected a whole number, found 'x'\n"
            "run.yaml:1:13: unknown key 'zz' in one; known here: a\n"
            "run.yaml:2:10: two.b: expected a whole number, found 'y'");
}

TEST(Config, DuplicateKeyIsRefused) {
  EXPECT_EQ(
      test::error_message(ErrorCode::kInvalidConfig, [] { parse("a: 1\nb: {c: 1, c: 2}\n"); }),
      "run.yaml:2:11: duplicate key 'c'; it is already defined at run.yaml:2:5");
}

TEST(Config, AliasIsACopyButNeverOfItself) {
  const auto document = parse("a: &x {n: 1}\nb: *x\n");
  EXPECT_EQ(document.root().at("b").at("n").as<int>(), 1);
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [] { parse("a: &x [1, *x]\n"); }),
              HasSubstr("run.yaml:1:11: this alias refers to the value that contains it"));
}

TEST(Config, AliasesOfAliasesDoNotExplode) {
  std::string text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 12; ++i) {
    text += fmt::format("a{0}: &a{0} [", i);
    for (int j = 0; j < 10; ++j) text += fmt::format("{}*a{}", j == 0 ? "" : ", ", i - 1);
    text += "]\n";
  }
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [&] { parse(text); }),
              HasSubstr("more than 100000 values"));
}

TEST(Config, SyntaxErrorHasItsPlace) {
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [] { parse("a: 1\nb: [1, 2\n"); }),
              HasSubstr("run.yaml:3:1: not valid YAML"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [] { parse("a: 1\n---\nb: 2\n"); }),
              HasSubstr("second document"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [] { parse(""); }),
              HasSubstr("is empty"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [] { parse("[1]"); }),
              HasSubstr("run.yaml:1:1: expected 'key: value' lines"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [] { parse("a: !!int 3"); }),
              HasSubstr("tag"));
}

TEST(Config, OverridesReplaceAddAndIndex) {
  const auto document =
      parse("training: {steps: 300}\nhosts: [{devices: 2}]\n",
            {"training.steps=5", "hosts.0.devices=4", "pipeline.schedule=gpipe", "list=[1, 2]"});
  EXPECT_EQ(document.root().at("training").at("steps").as<int>(), 5);
  EXPECT_EQ(document.root().at("hosts").items()[0].at("devices").as<int>(), 4);
  EXPECT_EQ(document.root().at("pipeline").at("schedule").as<std::string>(), "gpipe");
  EXPECT_THAT(document.root().at("list").as<std::vector<int>>(), ElementsAre(1, 2));
}

TEST(Config, MistakesInOverridesNameTheCommandLine) {
  const auto document = parse("training: {steps: 300}\n", {"training.stesp=5"});
  int steps = 0;
  document.root().at("training").read("steps", steps);
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidConfig, [&] { document.finish(); }),
            "command line: --set training.stesp=5: unknown key 'stesp' in training; did you mean "
            "'steps'?");
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [] { parse("a: 1\n", {"a"}); }),
              HasSubstr("command line: --set a: expected key.path=value"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [] { parse("a: 1\n", {"a.b=2"}); }),
              HasSubstr("'a' is a single value (run.yaml:1:4)"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [] { parse("a: [1]\n", {"a.1=2"}); }),
              HasSubstr("'a' is a list of length 1; '1' is not one of its indices"));
  const auto wrong = parse("a: 1\n", {"a=x"});
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidConfig, [&] { wrong.root().at("a").as<int>(); }),
            "command line: --set a=x: a: expected a whole number, found 'x'");
}

TEST(Config, LoadsAFileAndSaysWhenItCannot) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("weft_config_test_{}.yaml", ::getpid());
  std::ofstream(path) << "a: 1\n";
  EXPECT_EQ(ConfigDocument::load(path).root().at("a").where(), path.string() + ":1:4");
  std::filesystem::remove(path);
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [&] { ConfigDocument::load(path); }),
              HasSubstr("cannot be read"));
}

TEST(NearestName, FindsTyposOnly) {
  EXPECT_EQ(nearest_name("Eager_1F1B", {"gpipe", "eager-1f1b"}), "eager-1f1b");
  EXPECT_EQ(nearest_name("setps", {"steps", "batch"}), "steps");
  EXPECT_EQ(nearest_name("colour", {"steps", "batch"}), std::nullopt);
}

}  // namespace
}  // namespace weft
