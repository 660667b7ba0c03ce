#include "actors/agent/log_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "actors/system/system.h"
#include "tests/support/cluster_token.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

class LogPieces : public ::testing::Test {
 protected:
  LogPieces() { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  LogPiece read(std::uint64_t begin, std::uint64_t offset, std::uint32_t tail_lines,
                std::uint32_t max_bytes = 1000) const {
    return read_log_piece(file_, begin, {{}, offset, tail_lines}, max_bytes);
  }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("weft_log_reader_{}", ::getpid());
  const std::filesystem::path file_ = folder_ / "front.1.r0.log";
};

TEST_F(LogPieces, BeginWhereTheProcessBeganAndGoOnWhereTheLastOneEnded) {
  std::ofstream(file_) << "of an older cluster\none\ntwo\n";
  const LogPiece first = read(20, 0, 0, 5);
  EXPECT_EQ(first.text, "one\nt");
  EXPECT_TRUE(first.more);
  const LogPiece second = read(20, first.next, 0, 5);
  EXPECT_EQ(second.text, "wo\n");
  EXPECT_FALSE(second.more);
  EXPECT_EQ(read(20, second.next, 0).text, "");
}

TEST_F(LogPieces, LastLinesAreWholeLines) {
  std::ofstream(file_) << "one\ntwo\nthree\n";
  EXPECT_EQ(read(0, 0, 2).text, "two\nthree\n");
  EXPECT_EQ(read(0, 0, 9).text, "one\ntwo\nthree\n");
  EXPECT_EQ(read(0, 0, 9, 8).text, "three\n") << "as far as they fit into a piece";
  EXPECT_EQ(read(0, 0, 1).next, 14u);
}

TEST_F(LogPieces, AFileThatIsGoneOrCutShortIsNoReasonToFail) {
  EXPECT_THAT(read(0, 7, 0).problem, ::testing::HasSubstr("No such file"));
  EXPECT_EQ(read(0, 7, 0).next, 7u);
  std::ofstream(file_) << "one\n";
  EXPECT_EQ(read(100, 50, 0).text, "");
  std::filesystem::remove(file_);
  std::filesystem::create_symlink("/etc/passwd", file_);
  EXPECT_NE(read(0, 0, 0).problem, "");
}

TEST_F(LogPieces, OnlyTheAgentsOwnProcessSaysWhereALogBegins) {
  SystemOptions options;
  options.token = test::cluster_token();
  System agent(options), stranger(options);
  const auto own = agent.host_with<LogReader>(
      "logs", [this](Context& context) { return std::make_unique<LogReader>(context, folder_); });
  const auto of_stranger =
      stranger.named<LogReader>(stranger.connect(agent.listen({"127.0.0.1", 0})), "logs");
  const LogId log{{"front", 1}, 0};
  std::ofstream(folder_ / log.file()) << "one\ntwo\n";
  EXPECT_EQ(test::error_of([&] {
              of_stranger.call<&LogReader::log_opened>(log, std::uint64_t{8}).get();
            }).code(),
            ErrorCode::kInvalidArgument);
  const std::vector<LogPosition> positions{{log}};
  const auto text = [&] {
    return of_stranger.call<&LogReader::read>(positions, std::uint32_t{1000}).get().at(0).text;
  };
  EXPECT_EQ(text(), "one\ntwo\n");
  own.call<&LogReader::log_opened>(log, std::uint64_t{4}).get();
  EXPECT_EQ(text(), "two\n");
}

}  // namespace
}  // namespace weft::actors
