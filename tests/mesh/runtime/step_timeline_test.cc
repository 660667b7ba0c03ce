#include "mesh/runtime/step_timeline.h"

#include <gtest/gtest.h>

namespace weft::mesh {
namespace {

TimePoint at(int seconds) { return TimePoint(std::chrono::seconds(seconds)); }

transfer::TransferReport moved(int from, int to, std::uint64_t received) {
  return {.id = {},
          .outcome = {},
          .started = at(from),
          .moving = at(from),
          .finished = at(to),
          .bytes_sent = 100,
          .bytes_received = received};
}

TEST(StepTimeline, TakesActionsWithoutTheirWaits) {
  const Transfer edge{"x front->back", TransferPurpose::kReshard, 3, {}},
      sum{"all-reduce", TransferPurpose::kAllReduce, 4, {}};
  StepRequest request;
  request.trace = true;
  StepTimeline timeline(request);
  using enum Mark::Kind;
  timeline.compute(at(0));
  timeline.reach({kBegin, {0, ActionKind::kForward, 0}}, at(1));
  timeline.reach({kWaitBegins}, at(4));
  timeline.transferred(edge, 0, moved(2, 6, 50));  // half of it behind computation
  timeline.reach({kWaitEnds, {}, &edge, 0}, at(7));
  timeline.compute(at(7));
  timeline.reach({.kind = kWaitBegins, .idle = true}, at(7));
  timeline.reach({kWaitEnds, {}, &edge, 1}, at(7));
  timeline.compute(at(7));
  timeline.reach({kBegin, {0, ActionKind::kForward, 1}}, at(9));
  timeline.reach({kWaitBegins}, at(10));
  timeline.transferred(sum, 1, moved(10, 11, 50));
  timeline.reach({kWaitEnds, {}, &sum, 1}, at(12));
  timeline.compute(at(12));
  timeline.reach({kEndActions}, at(15));
  timeline.reach({kEndActions}, at(16));
  timeline.reach({kEnd}, at(18));
  const StepReport report = timeline.finish();
  EXPECT_EQ(report.compute_seconds, 1 + 3 + 2 + 1 + 3 + 3);
  EXPECT_EQ(report.wait_seconds, 3 + 2);
  EXPECT_EQ(report.transfer_seconds, 4);
  EXPECT_EQ(report.exposed_transfer_seconds, 2);
  EXPECT_EQ(report.reshard_bytes, 100u);
  EXPECT_EQ(report.collective_bytes, 100u);
  ASSERT_EQ(report.action_times.size(), 1u);
  EXPECT_EQ(report.action_times[0].count, 2u);
  EXPECT_EQ(report.action_times[0].seconds, (3 + 2 + 1 + 3) / 2.0);
  EXPECT_EQ(report.action_times[0].collective_seconds, 2 / 2.0);
  ASSERT_EQ(report.edge_times.size(), 1u);
  EXPECT_EQ(report.edge_times[0].op, 3u);
  EXPECT_EQ(report.edge_times[0].seconds, 4);
  int updates = 0, forwards = 0;
  for (const TraceEvent& event : report.trace) {
    updates += event.kind == TraceKind::kUpdate;
    forwards += event.kind == TraceKind::kForward;
  }
  EXPECT_EQ(updates, 1);
  EXPECT_EQ(forwards, 4) << "between two waits in a row there is none";
}

}  // namespace
}  // namespace weft::mesh
