#include "apps/cluster_view/log_view.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace weft::apps {
namespace {

TEST(LogView, ADeviceHasALongAndAShortName) {
  EXPECT_EQ(short_label("front[data=0,tensor=1]"), "front[0,1]");
  EXPECT_EQ(short_label("front[0,1]"), "front[0,1]");
  EXPECT_EQ(short_label("front"), "front");
}

TEST(LogView, AMeshThatWasSpawnedAgainHasLogsOfBothTimes) {
  actors::RunRecord run;
  for (const std::uint64_t epoch : {1, 2})
    run.devices.push_back({"front[x=0]", {"front", epoch}, 0, {"a", 0}, {}, 1, ""});
  // Rank 1 continued into the second epoch with its first log.
  for (const std::uint64_t epoch : {1, 2})
    run.devices.push_back(
        {"front[x=1]", {"front", epoch}, 1, {"a", 1}, {}, 2, "/logs/front.1.r1.log"});
  run.devices.push_back({"back[x=0]", {"back", 1}, 0, {"b", 0}, {}, 1, ""});
  const auto logs = find_logs(run, "front[0]");
  ASSERT_EQ(logs.size(), 2u);
  EXPECT_EQ(logs[0].label, "front[x=0] (epoch 1)");
  EXPECT_EQ(logs[1].name.file(), "front.2.r0.log");
  EXPECT_EQ(find_logs(run, "").size(), 4u);
  ASSERT_EQ(find_logs(run, "front[1]").size(), 1u);
  EXPECT_EQ(find_logs(run, "front[1]")[0].label, "front[x=1]");
  EXPECT_EQ(find_logs(run, "front[1]")[0].name.file(), "front.1.r1.log");
  EXPECT_EQ(find_logs(run, "back")[0].label, "back[x=0]");
}

TEST(LogView, ActorsOfASharedProcessHaveOneLog) {
  actors::RunRecord run;
  const actors::HostDevice a{"a", actors::kNoDevice}, b{"b", actors::kNoDevice};
  for (const std::uint32_t rank : {0, 1, 2})
    run.devices.push_back(
        {fmt::format("pool[x={}]", rank),
         {"pool", 1},
         rank,
         rank == 1 ? b : a,
         {},
         1,
         rank == 1 ? "/logs/shared-process.4.r0.log" : "/logs/shared-process.3.r0.log"});
  run.devices.push_back({"hits", {"hits", 2}, 0, a, {}, 1, "/logs/shared-process.3.r0.log"});
  const auto logs = find_logs(run, "");
  ASSERT_EQ(logs.size(), 2u) << "one of each process";
  EXPECT_EQ(logs[0].label, "shared process on a");
  EXPECT_EQ(logs[0].name.file(), "shared-process.3.r0.log");
  EXPECT_EQ(logs[1].host, "b");
  ASSERT_EQ(find_logs(run, "hits").size(), 1u);
  EXPECT_EQ(find_logs(run, "hits")[0].label, "hits");
  EXPECT_EQ(find_logs(run, "hits")[0].name.file(), "shared-process.3.r0.log");
  EXPECT_EQ(find_logs(run, "pool").size(), 2u);
}

TEST(LineSplitter, LinesAreWholeWhereverPiecesEnd) {
  LineSplitter splitter;
  EXPECT_EQ(splitter.add("on"), std::vector<std::string>());
  EXPECT_EQ(splitter.add("e\ntwo\nth"), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(splitter.take_incomplete(), std::vector<std::string>{"th"});
  EXPECT_TRUE(splitter.take_incomplete().empty());
}

}  // namespace
}  // namespace weft::apps
