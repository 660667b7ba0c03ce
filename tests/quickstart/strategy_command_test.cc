// Tests the output and exit status of `weft strategy`.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/quickstart/run_files.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class StrategyCommand : public ::testing::Test {
 protected:
  StrategyCommand() : processes_("strategies") {
    write_run_files(processes_);
    write_run("cube.yaml", "3d");
  }
  /// Writes a run file with one mesh of axes i=1, j=2, l=2 and the given layout.
  void write_run(const std::string& name, const std::string& layout) {
    processes_.write(name, fmt::format(R"(name: cube
app: gpt
cluster: {{hosts: [{{name: worker0, devices: 4}}]}}
meshes:
  cube: {{hosts: [worker0], shape: {{i: 1, j: 2, l: 2}}, layout: {}}}
pipeline:
  stages: [{{mesh: cube, layers: 2}}]
  microbatches: 2
training: {{steps: 2, batch: 8, learning_rate: 1e-3, validate_every: 2, validation_batches: 1}}
model: {{layers: 2, width: 16, heads: 4, sequence: 8}}
data: {{text: text.txt, tokenizer: bytes, cache: cache}}
)",
                                       layout));
  }
  RealProcesses processes_;
};

TEST_F(StrategyCommand, ARunWithTheShownStrategyTrainsTheSame) {
  auto& show = processes_.run("weft", {"strategy", "show", "cube.yaml"});
  ASSERT_EQ(show.wait(), 0) << show.text();
  EXPECT_THAT(show.text(), StartsWith("weft-strategy 1\nmesh cube i=1 j=2 l=2\ngather"));
  processes_.write("mine.strategy", show.text());
  write_run("mine.yaml", "mine.strategy");
  auto& again = processes_.run("weft", {"strategy", "show", "mine.yaml", "--mesh", "cube"});
  EXPECT_EQ(again.text(), show.text());
  auto& plan = processes_.run("weft", {"plan", "mine.yaml"});
  EXPECT_EQ(plan.wait(), 0);
  EXPECT_THAT(plan.text(), HasSubstr("mine.strategy, gathered once per microbatch"));
  auto& check = processes_.run("weft", {"strategy", "check", "mine.yaml"});
  EXPECT_EQ(check.wait(), 0) << check.text();
  EXPECT_EQ(check.text(), "mine.yaml: valid\n");
  for (const std::string name : {"cube", "mine"}) {
    auto& run = processes_.run("weft", {"run", name + ".yaml", "--out", name});
    ASSERT_EQ(run.wait(), 0) << run.text();
  }
  const auto loss = [&](const std::string& name) {
    const std::string line = read_file(processes_.directory() / name / "metrics.jsonl");
    return nlohmann::json::parse(line.substr(0, line.find('\n'))).at("loss").get<double>();
  };
  EXPECT_EQ(loss("mine"), loss("cube"));
}

TEST_F(StrategyCommand, ComparesLayoutsOnAxesThatSuitThem) {
  auto& compare = processes_.run("weft", {"strategy", "compare", "cube.yaml", "--layouts",
                                          "1d,2d,2.5d,3d", "--json", "--svg", "layouts.svg"});
  ASSERT_EQ(compare.wait(), 0) << compare.text();
  const nlohmann::json figures = nlohmann::json::parse(compare.text());
  ASSERT_EQ(figures.size(), 4u);
  EXPECT_EQ(figures[0]["meshes"], "cube(tensor=4)");
  EXPECT_EQ(figures[1]["meshes"], "cube(row=2,column=2)");
  EXPECT_THAT(figures[2]["refusal"].get<std::string>(),
              HasSubstr("mesh cube has 4 devices, which 2.5d cannot use"));
  EXPECT_EQ(figures[3]["meshes"], "cube(i=1,j=2,l=2)");  // the run's own axes
  for (const int i : {0, 1, 3}) {
    EXPECT_GT(figures[i]["received_bytes"], 0);
    EXPECT_GT(figures[i]["transfers"], 0);
    EXPECT_GT(figures[i]["state_bytes"], 0);
    for (const auto& [axes, along] : figures[i]["by_axes"].items())
      EXPECT_LE(along["law_of_linears_bytes"], along["received_bytes"]) << axes;
  }
  EXPECT_THAT(read_file(processes_.directory() / "layouts.svg"),
              AllOf(HasSubstr("tensor"), HasSubstr("gathered weights")));
  // The figures of two meshes describe a device of one mesh.
  fs::copy_file(fs::path(WEFT_SOURCE_DIR) / "cluster.yaml", processes_.directory() / "two.yaml");
  auto& two = processes_.run(
      "weft", {"strategy", "compare", "two.yaml", "--layouts", "1d,2d,fsdp", "--json"});
  ASSERT_EQ(two.wait(), 0) << two.text();
  for (const auto& one : nlohmann::json::parse(two.text())) {
    EXPECT_GT(one["law_of_linears_bytes"], 0) << one;
    EXPECT_LE(one["law_of_linears_bytes"], one["received_bytes"]) << one;
  }
  auto& table =
      processes_.run("weft", {"strategy", "compare", "cube.yaml", "--layouts", "1d,2.5d"});
  EXPECT_EQ(table.wait(), 0);
  EXPECT_THAT(table.text(), AllOf(HasSubstr("1d"), HasSubstr("2.5d: mesh cube has 4 devices")));
  auto& unknown = processes_.run("weft", {"strategy", "compare", "cube.yaml", "--layouts", "3e"});
  EXPECT_NE(unknown.wait(), 0);
  EXPECT_THAT(unknown.text(), HasSubstr("--layouts 3e: there are 1d"));
}

TEST_F(StrategyCommand, ChecksAFileForARun) {
  auto& show = processes_.run("weft", {"strategy", "show", "cube.yaml"});
  ASSERT_EQ(show.wait(), 0) << show.text();
  const std::string text = show.text();
  processes_.write("it's.strategy", text);
  auto& good = processes_.run("weft", {"strategy", "check", "it's.strategy", "--run", "cube.yaml"});
  EXPECT_EQ(good.wait(), 0);
  EXPECT_EQ(good.text(), "it's.strategy on mesh cube of cube.yaml: valid\n");
  auto& json = processes_.run(
      "weft", {"strategy", "check", "it's.strategy", "--run", "cube.yaml", "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.text()).at("valid"), true);

  std::string wrong = text;
  wrong.replace(wrong.find("home h0"), 7, "home k0");
  wrong.replace(wrong.find("op h1"), 5, "op k1");
  processes_.write("bad.strategy", wrong);
  auto& bad = processes_.run("weft", {"strategy", "check", "bad.strategy", "--run", "cube.yaml"});
  EXPECT_EQ(bad.wait(), 2);
  EXPECT_THAT(bad.text(), AllOf(HasSubstr("bad.strategy:"), HasSubstr("has no value 'k0."),
                                HasSubstr("did you mean 'h0."), HasSubstr("has no op 'k1."),
                                Not(HasSubstr(": valid"))));
  auto& problems =
      processes_.run("weft", {"strategy", "check", "bad.strategy", "--run", "cube.yaml", "--json"});
  EXPECT_EQ(problems.wait(), 2);
  EXPECT_THAT(problems.text(), HasSubstr("has no value 'k0."));
}

TEST_F(StrategyCommand, TheNextWidthThatItNamesSuitsTheHeadsToo) {
  auto& check =
      processes_.run("weft", {"check", "cube.yaml", "--set",
                              "meshes.cube={hosts: [worker0], shape: {tensor: 3}, layout: 1d}",
                              "--set", "model.width=32", "--set", "training.batch=6"});
  EXPECT_EQ(check.wait(), 2);
  EXPECT_THAT(check.text(),
              HasSubstr("has 32 elements, which tensor splits 3 ways; the next number "
                        "that divides is 36"));
}

TEST_F(StrategyCommand, RulesBecomeAFileThatItChecks) {
  write_run("rules.yaml", "rules");
  const std::vector<std::string> rules{"--set", "sharding={batch: j, mlp: l}"};
  auto& show = processes_.run("weft", {"strategy", "show", "rules.yaml", rules[0], rules[1]});
  ASSERT_EQ(show.wait(), 0) << show.text();
  EXPECT_THAT(show.text(), Not(HasSubstr("splits")));
  processes_.write("mine.strategy", show.text());
  auto& check = processes_.run(
      "weft", {"strategy", "check", "mine.strategy", "--run", "rules.yaml", rules[0], rules[1]});
  EXPECT_EQ(check.wait(), 0) << check.text();
}

TEST_F(StrategyCommand, ShowsEachMeshAndRefusesUnknownMeshes) {
  const auto said = [&](const std::vector<std::string>& words, int status) {
    std::vector<std::string> all{"strategy"};
    all.insert(all.end(), words.begin(), words.end());
    auto& command = processes_.run("weft", all);
    EXPECT_EQ(command.wait(), status) << command.text();
    return command.text();
  };
  const std::string both = said({"show", "cluster.yaml"}, 0);
  EXPECT_THAT(both, AllOf(HasSubstr("mesh front data=1 tensor=2"),
                          HasSubstr("\n\nweft-strategy 1\nmesh back data=2 tensor=1")));
  processes_.write("both.strategy", both);
  EXPECT_THAT(said({"check", "both.strategy", "--run", "cube.yaml"}, 2),
              HasSubstr("a second strategy begins here; a file may hold only one mesh's"));
  const std::string front = said({"show", "cluster.yaml", "--mesh", "front"}, 0);
  processes_.write("front.strategy", front);
  EXPECT_THAT(said({"check", "front.strategy", "--run", "cube.yaml"}, 2),
              HasSubstr("cube.yaml has no mesh 'front', only cube; say --mesh NAME"));
  EXPECT_THAT(said({"check", "front.strategy", "--run", "cube.yaml", "--mesh", "cube"}, 2),
              HasSubstr("this strategy is for a mesh of data=1 tensor=2, and 'cube' has i=1 j=2"));
  EXPECT_THAT(said({"show", "cluster.yaml", "--mesh", "frnt"}, 2),
              HasSubstr("there is no such mesh, only front, back; did you mean 'front'?"));
  EXPECT_THAT(said({"check", "front.strategy"}, 2), HasSubstr("for which run?"));
  EXPECT_THAT(said({"check", "none.strategy", "--run", "cube.yaml"}, 2),
              HasSubstr("there is no strategy file none.strategy"));
  EXPECT_THAT(said({"check", "cube.yaml", "--mesh", "cube"}, 2),
              HasSubstr("--run and --mesh go with a FILE.strategy"));
  EXPECT_THAT(said({"chek", "cube.yaml"}, 2), HasSubstr("did you mean 'check'?"));
  EXPECT_THAT(said({"show"}, 2), HasSubstr("for example: weft strategy show cluster.yaml"));
}

}  // namespace
}  // namespace weft::test
