#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <sstream>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/run_files/loss_plot.h"
#include "apps/run_files/metrics.h"
#include "apps/run_files/progress_display.h"
#include "apps/run_files/run_summary.h"
#include "apps/run_files/timeline_plot.h"
#include "core/base/error.h"
#include "core/base/memory_file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

StepMetrics metrics(std::int64_t step) {
  StepMetrics m;
  m.step = step;
  m.loss = 7.0 - 0.01 * step + 1e-16;
  m.grad_norm = 0.1 + 0.2;
  m.update_skipped = true;
  m.learning_rate = 1e-3;
  m.seconds = 0.5;
  m.units_per_second = 12345.6;
  m.transfer_seconds = 0.2;
  m.exposed_transfer_seconds = 0.05;
  m.resharded_bytes = 1024;
  if (step % 10 == 0) m.validation_loss = m.loss + 0.1;
  return m;
}

class ReportTest : public ::testing::Test {
 protected:
  const test::ScratchFolder scratch_;
  const fs::path& root_ = scratch_.path();
};

TEST_F(ReportTest, MetricsComeBackExactly) {
  const fs::path path = root_ / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    for (int step = 1; step <= 20; ++step) file.append(metrics(step));
  }
  const auto read = read_metrics(path);
  ASSERT_EQ(read.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(read[static_cast<std::size_t>(i)], metrics(i + 1));
}

TEST_F(ReportTest, EveryLineIsAnObjectWithThePromisedKeys) {
  const auto json = nlohmann::json::parse(to_json_line(metrics(10)));
  for (const char* key : {"step", "loss", "tokens_per_second", "grad_norm", "learning_rate",
                          "exposed_transfer_seconds", "validation_loss"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_FALSE(nlohmann::json::parse(to_json_line(metrics(11))).contains("validation_loss"));
}

TEST_F(ReportTest, ALossThatDivergedIsNullNotInvalidJson) {
  StepMetrics m = metrics(1);
  m.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(nlohmann::json::parse(to_json_line(m))["loss"].is_null());
  { MetricsFile(root_ / "m", 0).append(m); }
  EXPECT_TRUE(std::isnan(read_metrics(root_ / "m")[0].loss));
}

TEST_F(ReportTest, ResumingDropsTheStepsThatComeAgain) {
  const fs::path path = root_ / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    for (int step = 1; step <= 8; ++step) file.append(metrics(step));
  }
  std::ofstream(path, std::ios::app) << R"({"step":9,"lo)";  // cut off by a crash
  {
    MetricsFile file(path, 5);
    EXPECT_EQ(file.steps().size(), 5u);
    file.append(metrics(6));
  }
  const auto read = read_metrics(path);
  ASSERT_EQ(read.size(), 6u);
  EXPECT_EQ(read.back(), metrics(6));
}

/// Limit on the size of this process's files while the object exists, as on a full disk.
class SmallDisk final {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
  sighandler_t handler_;
};

TEST_F(ReportTest, MetricsGoBackOnAFullDiskAndLoseNoLine) {
  const fs::path path = root_ / "metrics.jsonl";
  MetricsFile file(path, 0);
  for (int step = 1; step <= 8; ++step) file.append(metrics(step));
  const auto line = static_cast<rlim_t>(to_json_line(metrics(1)).size());
  {
    const SmallDisk full(4 * line);
    EXPECT_THAT([&] { file.append(metrics(9)); },
                test::throws_error(ErrorCode::kUnavailable, "cannot write"));  // kept in memory
    file.rollback(7);
    ASSERT_FALSE(file.write_error()) << "what is dropped makes the file shorter";
    EXPECT_EQ(file.steps().size(), 7u);
    EXPECT_EQ(read_metrics(path).size(), 7u);
    EXPECT_THAT([&] { file.append(metrics(8)); },
                test::throws_error(ErrorCode::kUnavailable, "cannot write"));
    file.rollback(8);  // the line of step 8 is only in memory
    ASSERT_TRUE(file.write_error());
    EXPECT_EQ(file.steps().size(), 8u);
    EXPECT_EQ(read_metrics(path).size(), 7u);
    EXPECT_FALSE(fs::exists(path.string() + ".new")) << "it would take room";
  }
  file.append(metrics(9));
  EXPECT_FALSE(file.write_error());
  const auto read = read_metrics(path);
  ASSERT_EQ(read.size(), 9u);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(read[static_cast<std::size_t>(i)], metrics(i + 1));
}

TEST_F(ReportTest, LinesThatAFullDiskHasRefusedOutliveTheProcess) {
  const fs::path path = root_ / "metrics.jsonl";
  const MemoryFile memory("refused");
  {
    MetricsFile file(path, 0, memory.path());
    for (int step = 1; step <= 4; ++step) file.append(metrics(step));
    const SmallDisk full(4 * static_cast<rlim_t>(to_json_line(metrics(1)).size()));
    for (int step = 5; step <= 7; ++step)
      EXPECT_THAT([&] { file.append(metrics(step)); },
                  test::throws_error(ErrorCode::kUnavailable, "cannot write"));
  }
  EXPECT_EQ(read_metrics(path).size(), 4u);
  MetricsFile next(path, 6, memory.path());
  EXPECT_EQ(next.steps().size(), 6u);
  EXPECT_EQ(read_metrics(path).size(), 6u);
  EXPECT_EQ(read_metrics(memory.path()).size(), 0u);
}

TEST_F(ReportTest, MetricsOfAFolderThatComesLaterAreAllThere) {
  const fs::path path = root_ / "later" / "metrics.jsonl";
  MetricsFile file(path, 0);
  EXPECT_TRUE(file.write_error());
  EXPECT_THAT([&] { file.append(metrics(1)); },
              test::throws_error(ErrorCode::kUnavailable, "cannot write"));
  fs::create_directories(path.parent_path());
  file.append(metrics(2));
  EXPECT_EQ(read_metrics(path).size(), 2u);
}

TEST_F(ReportTest, ADamagedLineInTheMiddleIsNamed) {
  const fs::path path = root_ / "metrics.jsonl";
  std::ofstream(path) << to_json_line(metrics(1)) << "\nnonsense\n"
                      << to_json_line(metrics(2)) << "\n";
  EXPECT_THAT([&] { read_metrics(path); },
              test::throws_error(ErrorCode::kDataLoss, "metrics.jsonl:2"));
}

/// Returns the text that a progress display writes during `steps` steps of half a second each.
std::string shown(bool terminal, int steps, int columns = 100) {
  std::FILE* out = std::tmpfile();
  ManualClock clock;
  {
    ProgressDisplay display({.out = out, .terminal = terminal, .columns = columns}, clock, 0,
                            steps);
    for (int step = 1; step <= steps; ++step) {
      clock.advance(500ms);
      display.step(metrics(step));
    }
  }
  std::string text(std::ftell(out), '\0');
  std::rewind(out);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
  std::fclose(out);
  return text;
}

TEST(ProgressDisplay, APipeGetsFewPlainLines) {
  const std::string text = shown(false, 100);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 100 / 10 + 2);
  EXPECT_THAT(
      text,
      HasSubstr("  step  10/100  loss 6.900  validation 7.000  12,346 tokens/s  0:45 left\n"));
  EXPECT_TRUE(text.ends_with("done\n"));
}

TEST(ProgressDisplay, ATerminalGetsOneLineRedrawnThatFits) {
  const std::string text = shown(true, 40, 90);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 40);
  for (int columns : {20, 60, 90}) {
    std::string last = shown(true, 5, columns);
    last = last.substr(last.rfind('\r') + 1);
    int cells = 0;
    for (std::size_t i = 0; i < last.size(); ++i) {
      if (last[i] == '\x1b') i = last.find_first_of("mK", i);
      else if ((last[i] & 0xC0) != 0x80 && last[i] != '\n') ++cells;
    }
    EXPECT_LT(cells, columns);
  }
}

TEST(ProgressDisplay, TimesAndNumbersReadWell) {
  EXPECT_EQ(format_remaining(31.4), "0:31");
  EXPECT_EQ(format_remaining(725), "12:05");
  EXPECT_EQ(format_remaining(3723), "1:02:03");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1234567.4), "1,234,567");
  EXPECT_EQ(with_thousands(-1234), "-1,234");
}

RunSummary summary_of(int steps) {
  std::vector<StepMetrics> all;
  for (int step = 1; step <= steps; ++step) all.push_back(metrics(step));
  RunSummary summary{.name = "quickstart",
                     .app = "gpt",
                     .outcome = "done",
                     .total_steps = steps,
                     .baseline = {9.0, "a unigram model"}};
  summarize(all, summary);
  return summary;
}

TEST(RunSummary, AddsUpTheStepsAndTakesTheirMedianSpeed) {
  const RunSummary s = summary_of(20);
  EXPECT_EQ(s.steps, 20);
  EXPECT_DOUBLE_EQ(s.first_loss, metrics(1).loss);
  EXPECT_NEAR(s.last_loss, 7.0 - 0.01 * 15.5, 1e-9);
  EXPECT_DOUBLE_EQ(*s.first_validation_loss, *metrics(10).validation_loss);
  EXPECT_DOUBLE_EQ(*s.last_validation_loss, *metrics(20).validation_loss);
  EXPECT_NEAR(*s.hidden_share(), 0.75, 1e-9);
  EXPECT_EQ(s.resharded_bytes, 20480u);
  EXPECT_DOUBLE_EQ(s.units_per_second, 12345.6);
  EXPECT_EQ(nlohmann::json::parse(to_json(s))["steps"], 20);
}

TEST(RunSummary, AResumedRunCountsItsOwnTimeOnly) {
  std::vector<StepMetrics> all;
  for (int step = 1; step <= 10; ++step) all.push_back(metrics(step));
  RunSummary s{.resumed_from = 6};
  summarize(all, s);
  EXPECT_DOUBLE_EQ(s.seconds, 2.0);
  EXPECT_DOUBLE_EQ(s.first_loss, metrics(1).loss);
}

TEST_F(ReportTest, TheLastScreenSaysWhetherTheUnigramModelIsBeaten) {
  const RunDirectory directory = RunDirectory::prepare(root_ / "run");
  RunSummary s = summary_of(20);
  EXPECT_THAT(summary_screen(s, directory, false), HasSubstr("beaten by 2.100"));
  EXPECT_THAT(summary_screen(s, directory, false), Not(HasSubstr("\x1b")));
  s.baseline.loss = 1.0;
  s.outcome = "interrupted";
  s.total_steps = 50;
  EXPECT_THAT(summary_screen(s, directory, false), HasSubstr("not beaten yet"));
  EXPECT_THAT(summary_screen(s, directory, false), HasSubstr("interrupted: 20 of 50 steps"));
  s.checkpoint_step = 20;
  EXPECT_THAT(summary_screen(s, directory, false),
              HasSubstr("the last one after step 20; go on with --set checkpoint.resume=" +
                        directory.path().string()));
}

TEST_F(ReportTest, NoLineOfTheLastScreenIsWiderThanTheTerminalUnlessAWordIs) {
  const RunDirectory directory = RunDirectory::prepare(root_ / "run");
  RunSummary s = summary_of(20);
  for (int i = 0; i < 60; ++i) s.report.text += "and the Lord said ";
  s.report.title = "the model writes";
  std::istringstream lines(summary_screen(s, directory, true, 80));
  for (std::string line; std::getline(lines, line);) {
    if (line.find(directory.path().string()) != std::string::npos) continue;
    std::string seen;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\x1b') i = line.find('m', i);
      else seen += line[i];
    }
    EXPECT_LE(seen.size(), 80u) << seen;
  }
}

TEST(LossPlot, ShowsTrainingValidationAndTheBaseline) {
  std::vector<StepMetrics> all;
  for (int step = 1; step <= 100; ++step) all.push_back(metrics(step));
  const std::string svg = draw_losses(all, {5.5, "a unigram model"}, "a run").str();
  EXPECT_THAT(svg, HasSubstr("unigram model 5.500"));
  EXPECT_THAT(svg, HasSubstr("training 6.00"));
  EXPECT_THAT(svg, HasSubstr("validation 6.100"));
  EXPECT_THAT(svg, HasSubstr("a run"));
  // The plot leaves room for the longest label beside it.
  const std::string wide = draw_losses(all, {5.5, "guessing by frequency"}, "a run").str();
  EXPECT_THAT(wide, HasSubstr("x='672' y="));
  EXPECT_THAT(draw_losses({}, {}, "empty").str(), HasSubstr("</svg>"));
  EXPECT_THAT(draw_losses({metrics(1)}, {}, "one").str(), Not(HasSubstr("nan")));
}

std::vector<DeviceTrace> two_devices() {
  const auto event = [](TraceLane lane, TraceKind kind, int start, int end, int microbatch,
                        int step) {
    return TraceEvent{.lane = lane,
                      .kind = kind,
                      .start_ns = start,
                      .end_ns = end,
                      .microbatch = microbatch,
                      .step = step};
  };
  std::vector<DeviceTrace> devices(2);
  devices[0] = {.name = "front[0,0] on worker0"};
  devices[1] = {.name = "back[0,0] on worker1", .clock_offset_ns = -1000};
  for (int step : {1, 2, 3}) {
    const int at = step * 10000;
    devices[0].events.push_back(
        event(TraceLane::kCompute, TraceKind::kForward, at, at + 1000 * step, 0, step));
    devices[0].events.push_back(
        event(TraceLane::kSend, TraceKind::kReshard, at + 500, at + 1500, 0, step));
    devices[1].events.push_back(
        event(TraceLane::kReceive, TraceKind::kReshard, at + 1600, at + 2600, 0, step));
    devices[1].events.push_back(
        event(TraceLane::kCompute, TraceKind::kWait, at + 1000, at + 2600, 0, step));
  }
  return devices;
}

TEST(Timeline, HasARowForComputeAndEachDirectionOfEveryDevice) {
  const auto devices = two_devices();
  const std::string svg = draw_timeline(devices, 2, "step 2").str();
  const auto count = [&](const std::string& what) {
    int found = 0;
    for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count(">compute<"), 2);
  EXPECT_EQ(count(">send<"), 2);
  EXPECT_EQ(count(">receive<"), 2);
  EXPECT_EQ(count("<title>"), 4);  // only step 2's events
  EXPECT_EQ(count(">on worker1<"), 1);
}

TEST(Timeline, ATypicalStepIsTheOneOfMedianLength) {
  EXPECT_EQ(median_step(two_devices()), 2);
  EXPECT_EQ(median_step({}), 0);
  EXPECT_THAT(draw_timeline({}, 0, "empty").str(), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace weft::apps
