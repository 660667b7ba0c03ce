#include "core/trace/chrome_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.h"
#include "core/trace/trace_recorder.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

TraceEvent compute(std::int64_t start, std::int64_t end, int microbatch = 0) {
  return {.kind = TraceKind::kForward,
          .name = "",
          .start_ns = start,
          .end_ns = end,
          .microbatch = microbatch};
}

TraceEvent send(std::int64_t start, std::int64_t end, std::uint64_t bytes) {
  return {.lane = TraceLane::kSend,
          .kind = TraceKind::kReshard,
          .name = "h1 to \"back\"",
          .start_ns = start,
          .end_ns = end,
          .microbatch = 2,
          .step = 7,
          .bytes = bytes};
}

nlohmann::json written(const std::vector<DeviceTrace>& devices) {
  std::ostringstream out;
  write_chrome_trace(out, devices);
  return nlohmann::json::parse(out.str())["traceEvents"];
}

std::vector<nlohmann::json> spans(const nlohmann::json& events) {
  std::vector<nlohmann::json> result;
  for (const auto& event : events)
    if (event["ph"] == "X") result.push_back(event);
  return result;
}

TEST(AssignTracks, OverlappingEventsGetTheirOwnTrackAndTracksAreReused) {
  EXPECT_EQ(assign_tracks({compute(0, 4), compute(1, 3), compute(4, 6), compute(2, 5)}),
            (std::vector<int>{0, 1, 0, 2}));
  EXPECT_TRUE(assign_tracks({}).empty());
}

TEST(ChromeTrace, TimesStartAtZeroInMicrosecondsWithNanosecondDigits) {
  const auto events =
      spans(written({{.name = "a", .events = {compute(1'000'000'500, 1'000'002'750)}}}));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_DOUBLE_EQ(events[0]["ts"].get<double>(), 0.0);
  EXPECT_DOUBLE_EQ(events[0]["dur"].get<double>(), 2.25);
  EXPECT_EQ(events[0]["name"], "forward 0");
}

TEST(ChromeTrace, ClockOffsetOfADeviceShiftsItsEvents) {
  const auto events =
      spans(written({{.name = "a", .events = {compute(5000, 6000)}},
                     {.name = "b", .clock_offset_ns = 4000, .events = {compute(3000, 4000)}}}));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_DOUBLE_EQ(events[0]["ts"].get<double>(), 0.0);
  EXPECT_DOUBLE_EQ(events[1]["ts"].get<double>(), 2.0);
  EXPECT_NE(events[0]["pid"], events[1]["pid"]);
}

TEST(ChromeTrace, OverlappingSendsBecomeTwoNamedThreads) {
  const auto events =
      written({{.name = "front[0,1] on worker0", .events = {send(0, 10, 64), send(5, 15, 32)}}});
  std::vector<std::string> threads;
  std::string process;
  for (const auto& event : events) {
    if (event["name"] == "thread_name") threads.push_back(event["args"]["name"]);
    if (event["name"] == "process_name") process = event["args"]["name"];
  }
  EXPECT_EQ(process, "front[0,1] on worker0");
  EXPECT_EQ(threads, (std::vector<std::string>{"compute", "send", "send 2", "receive"}));
  EXPECT_NE(spans(events)[0]["tid"], spans(events)[1]["tid"]);
}

TEST(ChromeTrace, TransfersCarryStepMicrobatchAndBytesAndNamesAreEscaped) {
  const auto event = spans(written({{.name = "a", .events = {send(0, 10, 64)}}}))[0];
  EXPECT_EQ(event["args"], nlohmann::json({{"step", 7}, {"microbatch", 2}, {"bytes", 64}}));
  EXPECT_EQ(event["name"], "reshard 2: h1 to \"back\"");
  EXPECT_EQ(event["cat"], "reshard");
}

TEST(DeviceTrace, TravelsAsBytes) {
  const DeviceTrace trace{
      .name = "a", .clock_offset_ns = -5, .events = {send(1, 2, 3), compute(4, 5)}, .dropped = 6};
  EXPECT_EQ(decode<DeviceTrace>(encode(trace)), trace);
}

TEST(ChromeTrace, AnUnwritablePathIsAnErrorThatNamesIt) {
  EXPECT_THAT([&] { write_chrome_trace(std::filesystem::path("/no/such/folder/trace.json"), {}); },
              test::throws_error(ErrorCode::kUnavailable, "/no/such/folder/trace.json"));
}

TEST(TraceRecorder, RecordsNothingWhileOffAndCountsDroppedEvents) {
  TraceRecorder recorder(2);
  recorder.record(compute(0, 1));
  recorder.enable(true);
  for (int i = 0; i < 5; ++i) recorder.record(compute(i, i + 1, i));
  std::uint64_t dropped = 0;
  const auto events = recorder.take(&dropped);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].microbatch, 1);
  EXPECT_EQ(dropped, 3u);
  EXPECT_TRUE(recorder.take(&dropped).empty());
  EXPECT_EQ(dropped, 0u);
}

}  // namespace
}  // namespace weft
