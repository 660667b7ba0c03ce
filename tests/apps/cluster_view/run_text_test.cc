#include "apps/cluster_view/run_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weft::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

actors::RunRecord run(std::uint64_t number, actors::RunState state, std::int64_t step) {
  actors::RunRecord record;
  record.number = number;
  record.name = "quickstart";
  record.state = state;
  record.description = {"vm", "/home/ada/runs/quickstart"};
  record.began_unix_ms = 1'000;
  record.ended_unix_ms = 61'000;
  if (step > 0) record.progress = actors::RunProgress{step, 60, 2.5, 100, "tokens", 0};
  return record;
}

TEST(RunText, RunsOfOneNameAreDistinguishedByNumberAndFolder) {
  std::vector<actors::RunRecord> runs = {run(3, actors::RunState::kDone, 60),
                                         run(4, actors::RunState::kFailed, 0),
                                         run(7, actors::RunState::kInterrupted, 18)};
  runs[1].reason = "front[x=0] died: SIGKILL; log: a.log, which ends with:\n  | one\n  | two";
  runs[1].description.previous_run_path =
      "/home/ada/runs/quickstart.1";  // run 4 failed and moved it back
  runs[2].description.previous_run_path = "/home/ada/runs/quickstart.1";
  const std::string text = runs_text(runs, 0, "/home/ada");
  EXPECT_THAT(text, HasSubstr("  3  quickstart  done         60/60"));
  EXPECT_THAT(text, HasSubstr("  runs/quickstart.1\n"));
  EXPECT_THAT(text, HasSubstr("  7  quickstart  interrupted  18/60"));
  EXPECT_THAT(text, HasSubstr("  runs/quickstart\n"));
  EXPECT_THAT(text, HasSubstr("which ends with:\n"));
  EXPECT_THAT(text, Not(HasSubstr("| one"))) << "logs have their own command";
  EXPECT_EQ(runs_json(runs)[0]["out"], "/home/ada/runs/quickstart.1");
  EXPECT_EQ(runs_json(runs)[2]["out"], "/home/ada/runs/quickstart");
}

TEST(RunText, AnEventIsOneLine) {
  EXPECT_EQ(first_line("it died\n  | its log"), "it died");
  EXPECT_EQ(first_line("it died"), "it died");
}

}  // namespace
}  // namespace weft::apps
