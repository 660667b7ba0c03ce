#include "core/base/non_blocking_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace weft {
namespace {

using std::chrono::milliseconds;

/// Descriptors of a reader and of its writer.
struct Ends {
  int reader = -1, writer = -1;
  ~Ends() {
    ::close(reader);
    ::close(writer);
  }
};

enum class Reader { kPipe, kSocket, kTerminal };

Ends add_edge_sides(Reader kind) {
  int ends[2] = {-1, -1};
  const int failed = kind == Reader::kPipe ? ::pipe2(ends, O_CLOEXEC)
                     : kind == Reader::kSocket
                         ? ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends)
                         : ::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr);
  EXPECT_EQ(failed, 0);
  return {ends[0], ends[1]};
}

/// Reads until no data arrives for 500 ms.
std::string read_all(int reader) {
  std::string text;
  char piece[65536];
  pollfd some{reader, POLLIN, 0};
  while (::poll(&some, 1, 500) == 1 && (some.revents & POLLIN) != 0) {
    const ssize_t got = ::read(reader, piece, sizeof piece);
    if (got <= 0) break;
    text.append(piece, got);
  }
  return text;
}

class EveryReader : public ::testing::TestWithParam<Reader> {};

TEST_P(EveryReader, GetsTheTextInOrderThoughItBeginsToReadLate) {
  const Ends ends = add_edge_sides(GetParam());
  NonBlockingStream stream(ends.writer);
  std::string expected;
  for (int line = 0; line < 10'000; ++line) {  // 128 KiB; a pipe holds 64 KiB
    const std::string text = fmt::format("line {:>6}\n", line);
    std::fputs(text.c_str(), stream.file());
    expected += GetParam() == Reader::kTerminal ? fmt::format("line {:>6}\r\n", line) : text;
  }
  std::fflush(stream.file());
  EXPECT_EQ(read_all(ends.reader), expected);
  EXPECT_TRUE(stream.drain(milliseconds(100)));
}

TEST_P(EveryReader, WritersDoNotWaitForAReaderThatNeverReads) {
  const Ends ends = add_edge_sides(GetParam());
  NonBlockingStream stream(ends.writer);
  const std::string line(1023, 'x');
  for (int i = 0; i < 2'000; ++i) std::fprintf(stream.file(), "%s\n", line.c_str());
  EXPECT_FALSE(stream.drain(milliseconds(10)));
  // The stream recovers: it reports the number of dropped bytes, and writes later text.
  const std::string read = read_all(ends.reader);
  EXPECT_NE(read.find(" bytes of output were dropped here, because they were not read in time"),
            std::string::npos);
  EXPECT_LT(read.size(), 1'000'000u);
  std::fputs("later\n", stream.file());
  EXPECT_TRUE(stream.drain(milliseconds(500)));
  EXPECT_EQ(read_all(ends.reader).substr(0, 5), "later");
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryReader,
                         ::testing::Values(Reader::kPipe, Reader::kSocket, Reader::kTerminal));

TEST(NonBlockingStream, AReaderThatHasHungUpIsNoError) {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  Ends ends = add_edge_sides(Reader::kPipe);
  NonBlockingStream stream(ends.writer);
  ::close(std::exchange(ends.reader, -1));
  EXPECT_GE(std::fputs("nobody reads this\n", stream.file()), 0);
  EXPECT_EQ(std::fflush(stream.file()), 0);
  EXPECT_TRUE(stream.drain(milliseconds(10)));
  ::signal(SIGPIPE, before);
}

TEST(NonBlockingStream, AFileGetsItsTextAtOnceAndAtItsEnd) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  NonBlockingStream stream(::fileno(file));
  std::fputs("a result\n", stream.file());
  std::fflush(stream.file());
  char text[32] = {};
  EXPECT_EQ(::pread(::fileno(file), text, sizeof text, 0), 9);
  EXPECT_STREQ(text, "a result\n");
  std::fclose(file);
}

TEST(NonBlockingOutput, AProcessPrintsToTheEndThoughItsReaderHungUpOrNeverReads) {
  for (const bool hangs_up : {true, false}) {
    Ends ends = add_edge_sides(Reader::kPipe);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends.writer, STDOUT_FILENO);
      ::close(ends.reader);
      ::alarm(30);
      int lines = 0;
      {
        const NonBlockingOutput output;
        for (; lines < 100'000; ++lines) std::printf("line %d\n", lines);
        std::fflush(stdout);
      }
      ::_exit(lines == 100'000 ? 7 : 1);
    }
    if (hangs_up) ::close(std::exchange(ends.reader, -1));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), 7);
  }
}

}  // namespace
}  // namespace weft
