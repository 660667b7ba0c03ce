#include "core/base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <memory>

#include <string>

namespace weft {
namespace {

TEST(WrapLines, BreaksBetweenWordsUnderWhereTheLineBegan) {
  EXPECT_EQ(wrap_lines("  model  GPT: four layers", 20, 7), "  model  GPT: four\n         layers");
  EXPECT_EQ(wrap_lines("short\n\nlines\n", 20, 2), "short\n\nlines\n");
  EXPECT_EQ(wrap_lines("a-word-that-is-longer and more", 10, 2),
            "a-word-that-is-longer\n  and more");
}

TEST(WrapLines, ColoursTakeNoRoomAndSoDoTheRestsOfCharacters) {
  EXPECT_EQ(wrap_lines("\x1b[2mone\x1b[0m two", 7, 2), "\x1b[2mone\x1b[0m two");
  EXPECT_EQ(wrap_lines("\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81 two", 7, 2),
            "\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81 two");
}

/// Terminal of 66 columns.
class TerminalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0)
      GTEST_SKIP() << "no terminals here";
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
  EXPECT_TRUE(terminal.can_redraw_line);
  EXPECT_TRUE(terminal.colour);
  EXPECT_EQ(terminal.columns, 66);
}

TEST_F(TerminalTest, NoColorTakesTheColoursAlone) {
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(terminal_at(slave_).can_redraw_line);
  EXPECT_FALSE(terminal_at(slave_).colour);
  ::setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(terminal_at(slave_).colour) << "empty counts as unset";
}

TEST_F(TerminalTest, TextIsFittedToATerminalAndLeftWholeForAPipe) {
  const std::string text =
      "weft: no head answers at 127.0.0.1:7077 that this user started on this machine";
  EXPECT_EQ(wrapped_for_terminal(slave_, text),
            "weft: no head answers at 127.0.0.1:7077 that this user started on\n  this machine");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(wrapped_for_terminal(ends[1], text), text);
  EXPECT_EQ(wrapped_for_terminal(ends[1], "a \x1b[2J name\n"), "a \\x1b[2J name\n");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(TerminalTest, AMessageClearsTheProgressBarThatStandsThere) {
  const int kept = ::dup(STDERR_FILENO);
  ::dup2(slave_, STDERR_FILENO);
  const std::string on_a_terminal = message_prefix(stderr);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::dup2(ends[1], STDERR_FILENO);
  const std::string in_a_file = message_prefix(stderr);
  ::dup2(kept, STDERR_FILENO);
  for (const int descriptor : {kept, ends[0], ends[1]}) ::close(descriptor);
  EXPECT_EQ(on_a_terminal, "\r\x1b[K");
  EXPECT_EQ(in_a_file, "");
  EXPECT_EQ(message_prefix(stdout), "");
}

TEST_F(TerminalTest, APipeIsNone) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(terminal_at(ends[1]).can_redraw_line);
  EXPECT_FALSE(terminal_at(ends[1]).colour);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Say, APlaceThatRefusesIsNoReasonToFail) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> full(std::fopen("/dev/full", "w"),
                                                             std::fclose);
  ASSERT_NE(full, nullptr);
  std::setvbuf(full.get(), nullptr, _IONBF, 0);  // unbuffered, like standard error
  EXPECT_NO_THROW(say(full.get(), "{} of {}\n", 1, "many"));
  EXPECT_NE(std::ferror(full.get()), 0);
}

/// Exit status of a child process, and the text that it wrote to standard error.
struct ChildEnd {
  int status = -1;
  std::string said;
};
template <typename Work>
ChildEnd in_child(const Work& work) {
  std::fflush(nullptr);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> said(std::tmpfile(), &std::fclose);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::fileno(said.get()), STDERR_FILENO);
    ::_exit(work());
  }
  ChildEnd end;
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return end;
  end.status = WEXITSTATUS(status);
  std::rewind(said.get());
  char text[1000] = {};
  end.said.assign(text, std::fread(text, 1, sizeof text, said.get()));
  return end;
}

TEST(StatusAfterOutput, UnwrittenOutputIsAFailureThatIsReportedOnce) {
  const auto printed_to = [](const char* file, std::size_t bytes) {
    return in_child([file, bytes] {
      ::dup2(::open(file, O_WRONLY), STDOUT_FILENO);
      say(stdout, "{}\n", std::string(bytes, 'x'));
      return exit_status_after_flush("weft", 0);
    });
  };
  for (const std::size_t bytes : {10, 100'000}) {
    EXPECT_EQ(printed_to("/dev/null", bytes).status, 0);
    const ChildEnd full = printed_to("/dev/full", bytes);
    EXPECT_EQ(full.status, 1);
    EXPECT_EQ(full.said, "weft: cannot write to standard output: No space left on device\n");
  }
}

TEST(StatusAfterOutput, AClosedReaderIsNotReported) {
  const ChildEnd end = in_child([] {
    ::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    if (::pipe(ends) != 0) return 99;
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    say(stdout, "{}\n", "the plan");
    return exit_status_after_flush("weft", 0);
  });
  EXPECT_EQ(end.status, 1);
  EXPECT_EQ(end.said, "");
}

TEST(StandardDescriptors, NothingElseGetsTheNumberOfOneThatIsClosed) {
  const ChildEnd end = in_child([] {
    ::close(STDIN_FILENO);
    ::close(STDOUT_FILENO);
    open_standard_descriptors();
    const int file = ::open("/dev/zero", O_RDONLY);
    return file > STDERR_FILENO && ::write(STDOUT_FILENO, "x", 1) == 1 ? 0 : 1;
  });
  EXPECT_EQ(end.status, 0);
}

}  // namespace
}  // namespace weft
