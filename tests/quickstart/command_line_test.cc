// Tests the --help text of every `weft` command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {
using ::testing::HasSubstr;

TEST(CommandLine, EveryHelpEndsWithAnExample) {
  RealProcesses processes("help");
  // The error of an unknown command lists all commands: "... there are head, join, ..."
  auto& none = processes.run("weft", {"nothing-like-it"});
  ASSERT_EQ(none.wait(), 2);
  const std::string text = none.text();
  std::istringstream names(text.substr(text.find("there are ") + 10));
  std::vector<std::vector<std::string>> commands = {
      {}, {"schedule", "draw"}, {"strategy", "compare"}, {"token", "rotate"}};
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    name.erase(name.find_last_not_of(" \n") + 1);
    if (name != "bench") commands.push_back({name});  // `bench` has its own help texts
  }
  EXPECT_GT(commands.size(), 18u);
  for (std::vector<std::string> command : commands) {
    const std::string wanted = command.empty() ? "run" : command[0];
    command.emplace_back("--help");
    auto& help = processes.run("weft", command);
    EXPECT_EQ(help.wait(), 0);
    const std::string said = help.text();
    const auto example = said.rfind("Example:\n  ");
    ASSERT_NE(example, std::string::npos) << wanted << ": " << said;
    EXPECT_THAT(said.substr(example), HasSubstr("weft " + wanted)) << said;
    EXPECT_EQ(std::ranges::count(said.substr(example), '\n'), 2) << "it is the end: " << said;
  }
}

}  // namespace
}  // namespace weft::test
