#include "actors/supervision/restart_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "actors/supervision/incident.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TimePoint moment(Nanoseconds time) { return TimePoint(time); }

RestartBudget::Death death(const std::string& process, const std::string& fault = "") {
  return {process, process + " died", fault};
}

TEST(RestartBudget, OfNoneAdmitsNone) {
  RestartBudget budget(0, 1s);
  EXPECT_FALSE(budget.record_death(death("w0 1"), moment(1s)).restart);
}

TEST(RestartBudget, AdmitsSoManyWithinATimeAndMoreWhenThatHasPassed) {
  RestartBudget budget(2, 10s);
  EXPECT_EQ(budget.record_death(death("w0 1"), moment(1s)).restart, 1u);
  EXPECT_EQ(budget.record_death(death("w0 2"), moment(5s)).restart, 2u);
  const auto refused = budget.record_death(death("w0 3"), moment(6s));
  EXPECT_FALSE(refused.restart);
  EXPECT_FALSE(refused.repeated);
  EXPECT_THAT(budget.refusal("w0 3 died", refused),
              HasSubstr("limit of restarts is reached (recovery.restarts: 2 within 10"));
  EXPECT_THAT(budget.causes(moment(6s)), ElementsAre("w0 1 died", "w0 2 died", "w0 3 died"));
  // A refused restart counts too.
  EXPECT_EQ(budget.record_death(death("w0 4"), moment(15500ms)).restart, 2u);
}

TEST(RestartBudget, IsOneCountForTheProcessesThatShareIt) {
  RestartBudget of_run(3, 10min);
  RestartBudget of_driver(3, 10min, of_run.path());
  EXPECT_EQ(of_run.record_death(death("w1 7"), moment(1s)).restart, 1u);
  EXPECT_EQ(of_driver.record_death(death("w1 7"), moment(2s)).restart, 1u)
      << "both have seen one death";
  EXPECT_EQ(of_driver.record_death(death("w0 9"), moment(3s)).restart, 2u);
  EXPECT_EQ(of_run.record_death(death("driver 5"), moment(4s)).restart, 3u);
  // Budget of the next driver, which reads the same file.
  RestartBudget of_next(3, 10min, of_run.path());
  EXPECT_FALSE(of_next.record_death(death("w0 11"), moment(5s)).restart);
}

TEST(RestartBudget, ADeathOfAnUnknownProcessCountsEachTime) {
  RestartBudget budget(2, 10min);
  EXPECT_EQ(budget.record_death({.cause = "a connection"}, moment(1s)).restart, 1u);
  EXPECT_EQ(budget.record_death({.cause = "a connection"}, moment(2s)).restart, 2u);
}

TEST(RestartBudget, TwoEqualFailuresWithoutAStepBetweenEndTheRun) {
  RestartBudget budget(10, 10min);
  EXPECT_EQ(budget.record_death(death("w0 1", "SIGSEGV: at #"), moment(1s)).restart, 1u);
  budget.step_done();
  EXPECT_EQ(budget.record_death(death("w0 2", "SIGSEGV: at #"), moment(2s)).restart, 2u);
  EXPECT_EQ(budget.record_death(death("w0 3", "SIGABRT: other"), moment(3s)).restart, 3u);
  EXPECT_EQ(budget.record_death(death("w0 4"), moment(4s)).restart, 4u) << "ended from outside";
  const auto again = budget.record_death(death("w0 5", "SIGSEGV: at #"), moment(5s));
  EXPECT_FALSE(again.restart);
  EXPECT_TRUE(again.repeated);
  EXPECT_THAT(budget.refusal("w0 5 died", again),
              HasSubstr("w0 5 died. The same failure happened twice"));
  // Another process that shares the budget reports the same death.
  EXPECT_TRUE(budget.record_death(death("w0 5", "SIGSEGV: at #"), moment(6s)).repeated);
}

TEST(RestartBudget, ADeathThatWasReportedBeforeItsFaultWasKnownGetsIt) {
  RestartBudget of_run(10, 10min);
  RestartBudget of_driver(10, 10min, of_run.path());
  EXPECT_EQ(of_driver.record_death(death("w0 1"), moment(1s)).restart, 1u);
  EXPECT_EQ(of_run.record_death(death("w0 1", "bad input"), moment(2s)).restart, 1u);
  EXPECT_EQ(of_run.record_death(death("w0 1", "bad input"), moment(3s)).restart, 1u);
  EXPECT_THAT(of_run.causes(moment(4s)), ElementsAre("w0 1 died")) << "it counts once";
  // A second process with the same fault, again first reported without the fault.
  EXPECT_EQ(of_driver.record_death(death("w0 2"), moment(5s)).restart, 2u);
  const auto decision = of_run.record_death(death("w0 2", "bad input"), moment(6s));
  EXPECT_TRUE(decision.repeated);
  EXPECT_FALSE(decision.restart);
}

TEST(RestartBudget, WithoutThatPathIsOneOfItsOwn) {
  RestartBudget budget(1, 10min, "/proc/0/fd/3");
  EXPECT_EQ(budget.record_death(death("w0 1"), moment(1s)).restart, 1u);
}

ExitReport ended(int signal, int status, std::vector<std::string> lines = {}) {
  ExitReport evidence;
  evidence.has_parent_report = true;
  evidence.pid = 7;
  evidence.signal = signal;
  evidence.status = status;
  evidence.tail_lines = std::move(lines);
  return evidence;
}

TEST(ExitReport, AFaultIsWhatAProcessHasFailedOfByItselfWithoutNumbers) {
  EXPECT_EQ(ended(SIGSEGV, 0, {"12:04:05.1 reading 0x7f3a of front[0,1]"}).crash_signature(),
            "SIGSEGV: #:#:#.# reading # of front[#,#]");
  EXPECT_EQ(ended(0, 3).crash_signature(), "exit status 3");
  EXPECT_EQ(ended(0, 0).crash_signature(), "");
  for (const int outside : {SIGKILL, SIGTERM, SIGINT, SIGHUP})
    EXPECT_EQ(ended(outside, 0).crash_signature(), "") << signal_name(outside);
  EXPECT_EQ(ended(0, 128 + SIGTERM).crash_signature(), "") << "as a shell says it";
  ExitReport silent = ended(SIGSEGV, 0);
  silent.silence_text = "has been stopped";
  EXPECT_EQ(silent.crash_signature(), "");
  ExitReport killed = ended(SIGABRT, 0);
  killed.oom_kills = 1;
  EXPECT_EQ(killed.crash_signature(), "");
}

TEST(Incident, OfALostHostIsNoFaultAndNamesItsAgent) {
  Incident incident{"front", 1, {}, 0};
  ProcessFailure& failure = incident.failures.emplace_back();
  failure.host = "w1";
  failure.evidence = ended(SIGSEGV, 0);
  EXPECT_EQ(incident.process(), "w1 7");
  EXPECT_EQ(incident.crash_signature(), "SIGSEGV");
  failure.host_failure = "its agent (pid 7) died: SIGSEGV";
  EXPECT_EQ(incident.crash_signature(), "");
}

}  // namespace
}  // namespace weft::actors
