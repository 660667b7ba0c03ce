#include "core/log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;

Log recording(LogLevel lowest, std::vector<std::string>& lines) {
  return {lowest, [&lines](LogLevel level, const std::string& text) {
            lines.push_back(std::string(to_string(level)) + " " + text);
          }};
}

TEST(Log, OmitsLinesBelowItsLevel) {
  std::vector<std::string> lines;
  const Log log = recording(LogLevel::kWarning, lines);
  log.debug("a {}", 1);
  log.info("b {}", 2);
  log.warning("c {}", 3);
  log.error("d {}", 4);
  EXPECT_THAT(lines, ElementsAre("warning c 3", "error d 4"));
}

TEST(Log, ACopyWritesToTheSamePlace) {
  std::vector<std::string> lines;
  const Log log = recording(LogLevel::kDebug, lines);
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): the copy is the point
  const Log copy = log;
  log.info("one");
  copy.debug("two");
  EXPECT_THAT(lines, ElementsAre("info one", "debug two"));
}

TEST(Log, ALineOfAProcessSaysWhenAndHowGrave) {
  testing::internal::CaptureStderr();
  Log::standard_error(LogLevel::kInfo).warning("{} of 4 hosts joined, 100 %", 3);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} "
                           "warning: 3 of 4 hosts joined, 100 %\n"));
}

TEST(LogLevel, ComesFromItsName) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError})
    EXPECT_EQ(parse_log_level(to_string(level)), level);
  EXPECT_THAT([&] { parse_log_level("loud"); },
              test::throws_error(ErrorCode::kInvalidArgument, "there is no log level 'loud'"));
}

}  // namespace
}  // namespace weft
