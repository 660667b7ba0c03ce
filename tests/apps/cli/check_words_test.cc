#include "apps/cli/check_words.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

std::string refusal(const CLI::App& app, const std::vector<std::string>& words) {
  return test::error_of([&] { reject_unknown_words(app, words); }).message();
}

TEST(CheckWords, AMistypedOptionOfAProgramGetsTheNearest) {
  CLI::App app("", "weft bench reshard");
  std::string cases;
  app.add_option("--cases", cases);
  EXPECT_EQ(refusal(app, {"--case", "p1"}), "there is no option --case; did you mean '--cases'?");
  EXPECT_EQ(refusal(app, {"--frobnicate"}),
            "there is no option --frobnicate; there are --help, --cases");
  reject_unknown_words(app, {"--cases=p1", "--help"});
}

TEST(CheckWords, WordsAfterAPrefixCommandAreNotChecked) {
  CLI::App app("", "weft");
  app.add_subcommand("bench")->prefix_command();
  app.add_subcommand("run")->add_option("--out");
  reject_unknown_words(app, {"bench", "reshard", "--frobnicate"});
  EXPECT_EQ(refusal(app, {"rnu"}), "there is no command 'rnu'; did you mean 'run'?");
  EXPECT_EQ(refusal(app, {"run", "--ot"}), "run has no option --ot; did you mean '--out'?");
}

TEST(CheckWords, TheValueOfAnOptionIsNoCommand) {
  CLI::App app("", "weft");
  std::string head;
  bool json = false;
  CLI::App* actors = app.add_subcommand("actors");
  actors->add_option("--head", head);
  actors->add_flag("--json", json);
  actors->add_subcommand("stop");
  reject_unknown_words(app, {"actors", "--head", "127.0.0.1:7077"});
  reject_unknown_words(app, {"actors", "--head", "127.0.0.1:7077", "stop", "hits"});
  EXPECT_EQ(refusal(app, {"actors", "--head=127.0.0.1:7077", "stpo"}),
            "actors has no command 'stpo'; did you mean 'stop'?");
  EXPECT_EQ(refusal(app, {"actors", "--json", "stpo"}),
            "actors has no command 'stpo'; did you mean 'stop'?");
}

}  // namespace
}  // namespace weft::apps
