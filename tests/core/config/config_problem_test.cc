#include "core/config/config_problem.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/config/config_document.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {
namespace fs = std::filesystem;

class ConfigProblems : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(file_)
        << "training:\n  steps: many\n  shedule: x\nstages:\n  - {mesh: a}\ndata: ./text\n";
  }
  const test::ScratchFolder scratch_;
  const fs::path file_ = scratch_.path() / "run.yaml";
};

TEST_F(ConfigProblems, HavePlaceKeyAndNearest) {
  const std::vector<std::string> overrides = {"training.rate=fast"};
  const Error error = test::error_of([&] {
    const auto document = ConfigDocument::load(file_, overrides);
    const ConfigNode training = document.root().at("training");
    int steps = 0;
    double rate = 0;
    std::string schedule;
    training.read("steps", steps);
    training.read("rate", rate);
    training.read("schedule", schedule);
    document.root().at("stages").items()[0].at("mesh").record_problem("there is no mesh 'a'");
    document.root().at("data");
    document.finish();
  });
  const auto problems = problems_of(error, file_, overrides);
  ASSERT_EQ(problems.size(), 4u) << error.message();
  const auto json = nlohmann::json::parse(problems_json(file_, problems)).at("problems");
  const std::string at = file_.string();
  const auto find = [&](const std::string& key) {
    for (const auto& problem : json)
      if (problem.at("key") == key) return problem;
    return nlohmann::json();
  };
  EXPECT_EQ(find("training.steps").at("line"), 2);
  EXPECT_EQ(find("training.steps").at("column"), 10);
  EXPECT_EQ(find("training.steps").at("file"), at);
  EXPECT_EQ(find("training.shedule").at("nearest"), "schedule");
  EXPECT_EQ(find("training.shedule").at("line"), 3);
  EXPECT_TRUE(find("training.rate").at("line").is_null());
  EXPECT_EQ(find("stages[0].mesh").at("message"), "there is no mesh 'a'");
}

TEST_F(ConfigProblems, OfAFileThatIsNoYamlHaveAPlaceAndNoKey) {
  std::ofstream(file_) << "a: [1\n";
  const Error error = test::error_of([&] { ConfigDocument::load(file_); });
  const auto problems = problems_of(error, file_);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(problems[0].line.has_value()) << error.message();
  EXPECT_FALSE(problems[0].key.has_value());
}

TEST_F(ConfigProblems, PathsCountFromTheFileAndThoseOfSetFromTheWorkingDirectory) {
  const auto path = [&](std::vector<std::string> overrides) {
    return ConfigDocument::load(file_, overrides).root().at("data").as_path();
  };
  EXPECT_EQ(path({}), scratch_.path() / "text");
  EXPECT_EQ(path({"data=./text"}), fs::current_path() / "text");
  EXPECT_EQ(path({"data=/etc/../tmp/text"}), "/tmp/text");
  EXPECT_EQ(path({"data=~/text"}), fs::path(std::getenv("HOME")) / "text");
}

}  // namespace
}  // namespace weft
