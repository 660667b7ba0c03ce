#include "actors/supervision/incident.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "tests/support/scratch_folder.h"

namespace weft::actors {
namespace {

ProcessFailure failure(std::uint32_t rank, bool known, int signal, int status) {
  ExitReport evidence;
  evidence.has_parent_report = known;
  evidence.signal = signal;
  evidence.status = status;
  evidence.log_file = "logs/front.0.log";
  evidence.tail_lines = {"step 3", "step 4"};
  return {fmt::format("front[tensor={}]", rank),
          "front",
          3,
          rank,
          "worker0",
          rank,
          4121 + rank,
          evidence,
          ""};
}

TEST(Incident, NamesEverythingThatIsKnown) {
  ProcessFailure dead = failure(1, true, 9, 0);
  dead.evidence.oom_kills = 1;
  dead.evidence.rss_bytes = 62ull << 30;
  EXPECT_EQ(
      dead.describe(),
      "front[tensor=1] (mesh front, rank 1) on worker0 device 1 (pid 4122, epoch 3) died: SIGKILL, "
      "kernel OOM counter +1, rss 62 GiB"
      "; log: logs/front.0.log, which ends with:\n  | step 3\n  | step 4");
}

TEST(Incident, OnOneLineItHasNoLog) {
  ProcessFailure dead = failure(1, true, 9, 0);
  EXPECT_EQ(dead.summary(), "worker0 device 1 (front[tensor=1], pid 4122) died: SIGKILL");
  dead.host_failure = "its agent (pid 7) died: SIGKILL";
  EXPECT_EQ(
      dead.summary(),
      "worker0 device 1 (front[tensor=1], pid 4122) is lost: its agent (pid 7) died: SIGKILL");
}

TEST(Incident, AProcessWithoutADeviceIsNamedByItsHost) {
  ProcessFailure dead = failure(1, true, 9, 0);
  dead.device = kNoDevice;
  EXPECT_EQ(dead.place(), "worker0");
  EXPECT_EQ(dead.summary(), "worker0 (front[tensor=1], pid 4122) died: SIGKILL");
  EXPECT_EQ((Incident{"front", 3, {dead}, 0}).summary(), "worker0 (pid 4122) died: SIGKILL");
}

TEST(Incident, ActorsOfTheSameProcessAreNoConsequence) {
  ProcessFailure dead = failure(0, true, 9, 0), neighbour = dead, other = failure(2, true, 9, 0);
  dead.device = neighbour.device = other.device = kNoDevice;
  const std::string text = Incident{"front", 3, {dead, neighbour, other}, 0}.describe();
  EXPECT_THAT(text, ::testing::HasSubstr("\n  (1 more actor of mesh front ran in this process)\n  "
                                         "(1 more process of mesh front failed as a consequence)"));
}

TEST(Incident, NamesTheCapThatAProcessHasComeTo) {
  ProcessFailure dead = failure(1, true, SIGKILL, 0);
  dead.evidence.oom_kills = 1;
  dead.evidence.reached_memory_cap = true;
  dead.evidence.cap = {std::uint64_t{256} << 20, CapKind::kControlGroupV2, ""};
  EXPECT_EQ(dead.evidence.cause(),
            "SIGKILL by the kernel: out of memory, at its cap of 256 MiB (cluster.memory, cgroup "
            "v2)");
  // The machine, or a control group above, ran out of memory.
  dead.evidence.reached_memory_cap = false;
  EXPECT_EQ(dead.evidence.cause(), "SIGKILL, kernel OOM counter +1");
}

TEST(Incident, OfALimitOnDataSaysWhatItKnows) {
  ProcessFailure dead = failure(1, true, SIGABRT, 0);
  dead.evidence.cap = {std::uint64_t{256} << 20, CapKind::kDataLimit, ""};
  EXPECT_EQ(dead.evidence.cause(), "SIGABRT, capped at 256 MiB (cluster.memory, RLIMIT_DATA)");
  dead.evidence.tail_lines = {"terminate called after throwing an instance of 'std::bad_alloc'"};
  EXPECT_EQ(dead.evidence.cause(),
            "SIGABRT: out of memory, at its cap of 256 MiB (cluster.memory, RLIMIT_DATA)");
  dead.evidence.signal = SIGKILL;  // sent by another process
  EXPECT_EQ(dead.evidence.cause(), "SIGKILL");
}

TEST(Incident, WithoutAParentItSaysConnectionLost) {
  EXPECT_THAT(failure(0, false, 0, 0).describe(), ::testing::HasSubstr("died: connection lost"));
}

TEST(Incident, OfAStoppedProcessSaysThatItLivesAndDoesNotRun) {
  ProcessFailure stopped = failure(0, true, 0, 0);
  stopped.evidence.silence_text = "has been stopped (state T) for 10.2 s";
  EXPECT_THAT(
      stopped.describe(),
      ::testing::HasSubstr("(pid 4121, epoch 3) has been stopped (state T) for 10.2 s; log: "));
  EXPECT_FALSE(stopped.evidence.exited_cleanly());
}

TEST(Incident, TheStackOfACrashTakesNoRoomFromWhatWasSaidBefore) {
  const test::ScratchFolder scratch;
  ExitReport evidence;
  evidence.log_file = (scratch.path() / "device.log").string();
  {
    std::ofstream log(evidence.log_file);
    for (int i = 0; i < 40; ++i) log << "line " << i << "\n";
    log << "crash: SIGSEGV in 'run' of front[x=0]\n";
    for (int i = 0; i < 12; ++i) log << "  #" << i << " function (file.cc:1)\n";
  }
  evidence.read_log();
  ASSERT_EQ(evidence.tail_lines.size(), 33u);
  EXPECT_EQ(evidence.tail_lines.front(), "line 20");
  std::ofstream(evidence.log_file) << std::string(100, '\n');
  evidence.read_log();
  EXPECT_EQ(evidence.tail_lines.size(), 20u);
}

TEST(Incident, AnUnreadLogIsNotReportedAsEmpty) {
  ExitReport evidence;
  evidence.log_file = "/tmp/there/is/no/such/folder/front.0.log";
  EXPECT_EQ(evidence.log_note(),
            "; log: /tmp/there/is/no/such/folder/front.0.log (on that host; not read)");
  evidence.read_log();
  EXPECT_EQ(evidence.log_note(),
            "; log: /tmp/there/is/no/such/folder/front.0.log (on that host; not read)");
  evidence.log_file = "/dev/null";
  evidence.read_log();
  EXPECT_EQ(evidence.log_note(), "; log: /dev/null (empty)");
}

TEST(ExitReport, NamesWhatDoesNotSpeakUcxWhereUcxEndedTheProcess) {
  ExitReport evidence;
  evidence.has_parent_report = true;
  evidence.signal = SIGABRT;
  EXPECT_EQ(evidence.cause(), "SIGABRT");
  evidence.tail_lines = {
      "[vm:5058 :0:5071]      tcp_ep.c:1404 Assertion `hdr->length <= (iface->config.rx_seg_size - "
      "sizeof(*hdr))' failed",
      "==== backtrace (tid:   5071) ===="};
  EXPECT_NE(evidence.cause().find("SIGABRT in UCX (a program that does not use UCX"),
            std::string::npos)
      << evidence.cause();
  evidence.signal = SIGKILL;
  EXPECT_EQ(evidence.cause(), "SIGKILL");
}

TEST(IncidentLog, OneIncidentPerMeshAndEpoch) {
  ManualClock clock;
  IncidentLog book(clock);
  EXPECT_TRUE(book.record(failure(0, true, 9, 0)).is_new);
  EXPECT_FALSE(book.record(failure(1, true, 0, 1)).is_new);
  ProcessFailure later = failure(0, true, 9, 0);
  later.epoch = 4;
  EXPECT_TRUE(book.record(later).is_new);
  ASSERT_EQ(book.incidents().size(), 2u);
  EXPECT_THAT(book.incidents()[0].describe(),
              ::testing::HasSubstr("(1 more process of mesh front failed as a consequence)"));
}

TEST(IncidentLog, ASignalInTheWindowIsTheFirstCauseAndNotOneAfterIt) {
  ManualClock clock;
  IncidentLog book(clock, std::chrono::milliseconds(200));
  book.record(failure(0, true, 0, 1));
  clock.advance(std::chrono::milliseconds(100));
  EXPECT_EQ(book.record(failure(1, true, 9, 0)).incident.first_cause, 1u);
  clock.advance(std::chrono::milliseconds(200));
  ProcessFailure late = failure(2, true, 11, 0);
  EXPECT_EQ(book.record(late).incident.first_cause, 1u);
}

TEST(IncidentLog, KeepsTheLastOnes) {
  ManualClock clock;
  IncidentLog book(clock);
  for (std::uint64_t epoch = 1; epoch <= IncidentLog::kKept + 3; ++epoch) {
    ProcessFailure failure;
    failure.epoch = epoch;
    EXPECT_TRUE(book.record(failure).is_new);
  }
  EXPECT_EQ(book.incidents().size(), IncidentLog::kKept);
  EXPECT_EQ(book.incidents().front().epoch, 4u);
}

TEST(IncidentLog, BetterEvidenceOfTheSameDeathReplacesTheWorse) {
  ManualClock clock;
  IncidentLog book(clock);
  book.record(failure(0, false, 0, 0));
  const auto recorded = book.record(failure(0, true, 9, 0));
  EXPECT_FALSE(recorded.is_new);
  EXPECT_EQ(recorded.incident.failures.size(), 1u);
  EXPECT_EQ(recorded.incident.failures[0].evidence.signal, 9);
}

}  // namespace
}  // namespace weft::actors
