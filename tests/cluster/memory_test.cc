// Tests `cluster.memory`, which this machine enforces by a control group or by RLIMIT_DATA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr const char* kKind = "\\((cgroup v[12]|RLIMIT_DATA)\\)";

/// Writes a run file whose actors hold `resident` of memory, on hosts that `launcher` starts. The
/// cap leaves room for a sanitizer.
void write_run(const RealProcesses& processes, const std::string& launcher,
               const std::string& resident) {
  processes.write(
      "run.yaml",
      fmt::format("name: capped\napp: cluster_app\n"
                  "cluster: {{launcher: {}, memory: 256MiB, hosts: [{{name: worker0}}]}}\n"
                  "recovery: {{restarts: 0}}\nwork: {{actors: 1, resident: {}}}\n",
                  launcher, resident));
}

/// Returns a matcher of the error. RLIMIT_DATA makes allocations fail; a control group kills.
auto names_the_cap() {
  return AnyOf(
      HasSubstr(
          "weft: run 'capped' failed: out of memory: front[x=0] reached its cap of 256 "
          "MiB (cluster.memory, RLIMIT_DATA); raise cluster.memory, or reduce the memory that "
          "it needs"),
      ContainsRegex("weft: run 'capped' failed: front\\[x=0\\] .* died: SIGKILL by the kernel: out "
                    "of memory, at its cap of 256 MiB \\(cluster.memory, cgroup v[12]\\), rss "));
}

TEST(Memory, OfALocalRunIsCappedAndItSaysHow) {
  RealProcesses processes("memory");
  write_run(processes, "local", "32MiB");
  auto& run = processes.run("weft", {"run", "run.yaml", "--out", "out"});
  EXPECT_EQ(run.wait(), 0) << run.text();
  const std::string said = "device processes are capped at 256 MiB each ";
  EXPECT_THAT(run.text(), AllOf(ContainsRegex(said + kKind), HasSubstr("total 42")));
  EXPECT_THAT(read_file(processes.directory() / "out/events.jsonl"),
              AllOf(HasSubstr("\"kind\":\"memory cap\""), HasSubstr(said)));
  EXPECT_THAT(
      read_file(processes.directory() / "out/logs/agent.worker0.log"),
      ContainsRegex("mesh front: each device process is capped at 256 MiB " + std::string(kKind)));
  EXPECT_TRUE(processes.none_left());
}

TEST(Memory, OfALocalRunThatNeedsMoreEndsItByTheNameOfTheCap) {
  RealProcesses processes("memory_ends");
  write_run(processes, "local", "512MiB");
  auto& run = processes.run("weft", {"run", "run.yaml", "--out", "out"});
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.text(), names_the_cap());
  EXPECT_TRUE(processes.none_left());
}

TEST(Memory, OfARunOnAClusterThatRunsIsCappedByItsHosts) {
  RealProcesses processes("memory_joined");
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  auto& host = processes.start("weft", {"join", address, "--name", "worker0"});
  host.word_after("has joined cluster");
  write_run(processes, "manual", "512MiB");
  auto& run = processes.run("weft", {"run", "run.yaml", "--head", address, "--out", "out"});
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.text(), names_the_cap());
  // The cap belongs to the run: the next run has none.
  auto& next = processes.run(
      "weft", {"run", "run.yaml", "--head", address, "--out", "out", "--set", "cluster.memory=0"});
  EXPECT_EQ(next.wait(), 0);
  EXPECT_THAT(next.text(), HasSubstr("total 42"));
}

}  // namespace
}  // namespace weft::test
