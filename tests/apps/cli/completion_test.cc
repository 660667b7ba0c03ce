#include "apps/cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using ::testing::HasSubstr;

class Completion : public ::testing::Test {
 protected:
  Completion() {
    auto* run = app_.add_subcommand("run", "Run it");
    run->add_option("file", file_, "The run file");
    run->add_option("--out", out_, "It's a folder");
    app_.add_subcommand("runs", "All runs")->add_flag("-j,--json", json_, "JSON");
    auto* schedule = app_.add_subcommand("schedule", "Schedules");
    schedule->add_subcommand("show", "Show one")->add_option("--stages", stages_, "How many");
  }

  /// Returns bash's completions of the last of `words`.
  std::string offered(const std::string& words, int count) {
    std::ofstream(scratch_.path() / "weft.bash") << completion_for("bash", app_);
    std::ofstream(scratch_.path() / "a_file") << "";
    const std::string command =
        "cd '" + scratch_.path().string() + "' && bash -c \"source ./weft.bash; COMP_WORDS=(" +
        words + "); COMP_CWORD=" + std::to_string(count) + "; _weft; echo \\${COMPREPLY[@]}\"";
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> text{};
    const std::size_t size = std::fread(text.data(), 1, text.size(), pipe);
    EXPECT_EQ(::pclose(pipe), 0);
    return {text.data(), size};
  }

  test::ScratchFolder scratch_;
  CLI::App app_{"A program", "weft"};
  std::string file_, out_;
  int stages_ = 0;
  bool json_ = false;
};

TEST_F(Completion, BashKnowsCommandsAndTheirOptions) {
  EXPECT_EQ(offered("weft ru", 1), "run runs\n");
  EXPECT_EQ(offered("weft runs --j", 2), "--json\n");
  EXPECT_EQ(offered("weft run --o", 2), "--out\n");
  EXPECT_EQ(offered("weft schedule s", 2), "show\n");
  EXPECT_EQ(offered("weft schedule show --st", 3), "--stages\n");
  EXPECT_EQ(offered("weft run --out x a_f", 4), "a_file\n") << "where a file may stand";
  EXPECT_EQ(offered("weft runs a_f", 2), "\n");
}

TEST_F(Completion, FishAndZshHaveTheSameWords) {
  const std::string fish = completion_for("fish", app_);
  EXPECT_THAT(fish, HasSubstr("-a schedule -d 'Schedules'"));
  EXPECT_THAT(fish, HasSubstr("-l out -r -d 'It\\'s a folder'"));
  EXPECT_THAT(fish, HasSubstr("-l stages"));
  EXPECT_THAT(completion_for("zsh", app_), HasSubstr("#compdef weft"));
  EXPECT_THAT(completion_for("zsh", app_), HasSubstr("'schedule show') offers='"));
  EXPECT_THAT([&] { completion_for("tcsh", app_); },
              test::throws_error(ErrorCode::kInvalidArgument, "only bash, zsh, fish"));
}

}  // namespace
}  // namespace weft::apps
