#include "actors/cluster/run_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace weft::actors {
namespace {

TEST(RunEvents, ALineHasTheTimeInUtcAndWhatIsKnown) {
  EXPECT_EQ(to_json_line({"incident", "died: SIGKILL\n  | last", "worker0", "front", 1, 4121},
                         1'763'834'531'045),
            "{\"time\":\"2025-11-22T18:02:11.045Z\",\"kind\":\"incident\",\"host\":\"worker0\","
            "\"mesh\":\"front\",\"rank\":1,"
            "\"pid\":4121,\"cause\":\"died: SIGKILL\\n  | last\"}\n");
  EXPECT_EQ(
      to_json_line({"interruption", "SIGINT"}, 0),
      "{\"time\":\"1970-01-01T00:00:00.000Z\",\"kind\":\"interruption\",\"cause\":\"SIGINT\"}\n");
}

TEST(RunEvents, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_THAT(to_json_line({"failed", "log: \xff\xfe"}, 0),
              ::testing::HasSubstr("log: \xef\xbf\xbd"));
}

TEST(RunEvents, AreAppendedAndAFolderThatCannotBeWrittenIsNoError) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("weft_events_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  RunEvents(folder).add({"interruption", "SIGINT"});
  RunEvents(folder).add({"failed", "no"});
  std::ifstream file(folder / "events.jsonl");
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) ++lines;
  EXPECT_EQ(lines, 2);
  std::filesystem::remove_all(folder);
  RunEvents(folder / "gone").add({"failed", "no"});
}

TEST(RunEvents, HalfALineOnAFullDiskIsTakenBack) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("weft_full_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto file = folder / "events.jsonl";
  RunEvents(folder).add({"interruption", "first"});
  const auto size = std::filesystem::file_size(file);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit few{size + 20, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &few);
  RunEvents(folder).add({"incident", "for which there is no room"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(std::filesystem::file_size(file), size);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft::actors
