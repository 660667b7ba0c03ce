#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/config/config_document.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ResolvedConfig : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / fs::path("resolved_config");
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  /// Writes the resolved document to another folder and loads it from there.
  ConfigDocument again(const ConfigDocument& document) const {
    fs::create_directories(folder_ / "out");
    std::ofstream(folder_ / "out" / "run.yaml") << document.resolved();
    return ConfigDocument::load(folder_ / "out" / "run.yaml");
  }

  fs::path folder_;
};

TEST_F(ResolvedConfig, HasTheSameValues) {
  const auto document = ConfigDocument::load(
      write("cluster.yaml",
            "name: a run\ntext: \"3\"\nsteps: 300\nrate: 1e-3\nfast: true\nwait: 250ms\nempty:\n"
            "none: ~\nword: 'it''s # \"this\"\\'\nlong: |\n  one\n    two\nlists: [[1, 2], []]\n"
            "maps: {}\nhosts:\n- {name: w0, devices: 2}\n- name: w1\n  at: {x: {y: z}}\n"
            "\"odd key: \": 1\npair: &p {a: 1}\nsame: *p\n"));
  const auto read = again(document);
  for (const ConfigDocument* each : {&document, &read}) {
    const ConfigNode root = each->root();
    EXPECT_EQ(root.at("name").as<std::string>(), "a run");
    EXPECT_EQ(root.at("text").as<std::string>(), "3");
    EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [&] { root.at("text").as<int>(); }),
                HasSubstr("found the text"));
    EXPECT_EQ(root.at("steps").as<int>(), 300);
    EXPECT_EQ(root.at("rate").as<double>(), 1e-3);
    EXPECT_TRUE(root.at("fast").as<bool>());
    EXPECT_EQ(root.at("wait").as<Nanoseconds>(), std::chrono::milliseconds(250));
    EXPECT_FALSE(root.has("empty"));
    EXPECT_FALSE(root.has("none"));
    EXPECT_EQ(root.at("word").as<std::string>(), "it's # \"this\"\\");
    EXPECT_EQ(root.at("long").as<std::string>(), "one\n  two\n");
    EXPECT_THAT(root.at("lists").items()[0].as<std::vector<int>>(), ElementsAre(1, 2));
    EXPECT_TRUE(root.at("lists").items()[1].items().empty());
    EXPECT_EQ(root.at("maps").kind(), ConfigNode::Kind::kMap);
    EXPECT_EQ(root.at("hosts").items()[0].at("devices").as<int>(), 2);
    EXPECT_EQ(root.at("hosts").items()[1].at("at").at("x").at("y").as<std::string>(), "z");
    EXPECT_EQ(root.at("odd key: ").as<int>(), 1);
    EXPECT_EQ(root.at("same").at("a").as<int>(), 1);
    EXPECT_FALSE(root.has("resolved"));
  }
  EXPECT_EQ(read.resolved(), document.resolved());
}

TEST_F(ResolvedConfig, AppliesOverridesAndKeepsPlaces) {
  const std::string file = write("cluster.yaml", "training:\n  steps: 10\n  rate: 1e-3\nmore: 1\n");
  const std::vector<std::string> overrides = {"training.steps=20", "training.new={a: b}"};
  const auto read = again(ConfigDocument::load(file, overrides));
  EXPECT_EQ(read.root().at("training").at("steps").as<int>(), 20);
  EXPECT_EQ(read.root().at("training").at("rate").where(), file + ":3:9");
  EXPECT_EQ(read.root().at("training").where(), file + ":2:3");
  EXPECT_EQ(read.root().at("training").at("steps").where(),
            "command line: --set training.steps=20");
  EXPECT_EQ(read.root().at("training").at("new").at("a").where(),
            "command line: --set training.new={a: b}");
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig, [&] { read.root().finish(); }),
              HasSubstr(file + ":4:1: unknown key 'more'"));
  const ConfigOrigin& origin = read.origin();
  EXPECT_EQ(origin.name, file);
  EXPECT_EQ(origin.file, fs::path(file));
  EXPECT_EQ(origin.sha256, sha256_file(file));
}

TEST_F(ResolvedConfig, MakesPathsAbsoluteAndNamesInputFiles) {
  const std::string file =
      write("cluster.yaml", "cache: tokens\nschedule: mine.csv\nlater: there\n");
  const auto document = ConfigDocument::load(file, std::vector<std::string>{"given=here"});
  document.root().at("cache").as_path();
  document.root().at("given").as_path();
  EXPECT_EQ(document.root().at("schedule").as_input_file(), folder_ / "mine.csv");
  EXPECT_THAT(document.resolved(), HasSubstr((folder_ / "tokens").string()));
  auto read = again(document);
  EXPECT_EQ(read.root().at("cache").as<std::string>(), (folder_ / "tokens").string());
  EXPECT_EQ(read.root().at("given").as_path(), fs::current_path() / "here");
  // "later" was not read from the original. Its path still starts at the original's folder.
  EXPECT_EQ(read.root().at("later").as_path(), folder_ / "there");
  const auto inputs = read.input_files();
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].key, "schedule");
  EXPECT_EQ(inputs[0].file, folder_ / "mine.csv");
  read.set_path("schedule", "/copies/mine.csv");
  const auto copied = again(read);
  EXPECT_EQ(copied.root().at("schedule").as_path(), "/copies/mine.csv");
  EXPECT_EQ(copied.root().at("schedule").where(), file + ":2:11");
}

TEST_F(ResolvedConfig, EditedByHandIsAFileOfItsOwn) {
  const auto document = ConfigDocument::load(write("cluster.yaml", "\n\nsteps: 10\nrate: 1\n"));
  std::string text = document.resolved();
  text.replace(text.find("steps: 10"), 9, "steps: 11");
  const std::string edited = write("run.yaml", text);
  const auto read = ConfigDocument::load(edited);
  EXPECT_EQ(read.root().at("steps").as<int>(), 11);
  EXPECT_THAT(read.root().at("steps").where(), StartsWith(edited));
  EXPECT_EQ(read.origin().file, fs::path(edited));
}

TEST_F(ResolvedConfig, SaysWhetherTheOriginalWasPrivate) {
  const std::string file = write("cluster.yaml", "name: a\n");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(again(ConfigDocument::load(file)).origin().is_private);
  fs::permissions(file, fs::perms::others_read, fs::perm_options::add);
  EXPECT_FALSE(again(ConfigDocument::load(file)).origin().is_private);
}

TEST_F(ResolvedConfig, DamagedSectionIsRefused) {
  EXPECT_THAT(
      test::error_message(ErrorCode::kInvalidConfig,
                          [&] { ConfigDocument::parse("a: 1\nresolved: {}\n", "run.yaml"); }),
      HasSubstr("lacks 'folder'"));
}

}  // namespace
}  // namespace weft
