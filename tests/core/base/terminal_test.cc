#include "core/base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace weft {
namespace {

TEST(WrapLines, BreaksBetweenWordsUnderWhereTheLineBegan) {
  EXPECT_EQ(wrap_lines("  model  GPT: four layers", 20, 7), "  model  GPT: four\n         layers");
  EXPECT_EQ(wrap_lines("short\n\nlines\n", 20, 2), "short\n\nlines\n");
  EXPECT_EQ(wrap_lines("a-word-that-is-longer and more", 10, 2), "a-word-that-is-longer\n  and more");
}

TEST(WrapLines, ColoursTakeNoRoomAndSoDoTheRestsOfCharacters) {
  EXPECT_EQ(wrap_lines("\x1b[2mone\x1b[0m two", 7, 2), "\x1b[2mone\x1b[0m two");
  EXPECT_EQ(wrap_lines("\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81 two", 7, 2), "\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81 two");
}

/// A terminal of 66 columns.
class TerminalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) GTEST_SKIP() << "no terminals here";
    slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    const winsize size{20, 66, 0, 0};
    ::ioctl(master_, TIOCSWINSZ, &size);
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("NO_COLOR");
  }
  void TearDown() override {
    ::close(slave_);
    ::close(master_);
  }
  int master_ = -1, slave_ = -1;
};

TEST_F(TerminalTest, HasItsWidthAndColours) {
  const Terminal terminal = terminal_at(slave_);
  EXPECT_TRUE(terminal.redraws);
  EXPECT_TRUE(terminal.colour);
  EXPECT_EQ(terminal.columns, 66);
}

TEST_F(TerminalTest, NoColorTakesTheColoursAlone) {
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(terminal_at(slave_).redraws);
  EXPECT_FALSE(terminal_at(slave_).colour);
  ::setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(terminal_at(slave_).colour) << "empty counts as unset";
}

TEST_F(TerminalTest, APipeIsNone) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(terminal_at(ends[1]).redraws);
  EXPECT_FALSE(terminal_at(ends[1]).colour);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace weft
