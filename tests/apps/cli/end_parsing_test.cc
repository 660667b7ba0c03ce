#include "apps/cli/end_parsing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>

namespace weft::apps {
namespace {

TEST(EndParsing, HelpKeepsToTheWidthOfTheTerminal) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0)
    GTEST_SKIP() << "no terminals here";
  const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  const winsize size{20, 60, 0, 0};
  ::ioctl(master, TIOCSWINSZ, &size);
  CLI::App app("What it is for, in more words than a line of this terminal has room for.",
               "weft bench reshard");
  app.get_formatter()->column_width(34);
  std::string cases;
  app.add_option("--cases", cases, "An explanation that is too long for the rest of its line");
  std::fflush(stdout);
  const int output = ::dup(STDOUT_FILENO);
  ::dup2(slave, STDOUT_FILENO);
  int status = -1;
  try {
    app.parse("--help");
  } catch (const CLI::ParseError& error) {
    status = print_parse_result(app, error);
  }
  std::fflush(stdout);
  ::dup2(output, STDOUT_FILENO);
  ::close(output);
  EXPECT_EQ(status, 0);
  std::string text(4000, ' ');
  const ssize_t got = ::read(master, text.data(), text.size());
  ::close(slave);
  ::close(master);
  ASSERT_GT(got, 0);
  text.resize(got);
  std::erase(text, '\r');
  EXPECT_NE(text.find("--cases"), std::string::npos) << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 60u) << line;
}

}  // namespace
}  // namespace weft::apps
