// Tests `app: select` on real processes: a memory limit, different numbers of workers, killed
// workers and interrupted drivers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "actors/supervision/proc_stat.h"
#include "apps/parquet/parquet.h"
#include "core/base/philox.h"
#include "tests/apps/selection/npy_writing.h"
#include "tests/support/parquet_files.h"
#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Memory limit of each device process in MiB. A sanitizer's own memory needs more.
constexpr int cap_mib() {
#if defined(WEFT_ADDRESS_SANITIZER) || defined(WEFT_THREAD_SANITIZER)
  return 1024;
#endif
  return 96;
}

class Select : public ::testing::Test {
 protected:
  /// Starts a run. `more` are further arguments.
  RealProcesses::Process& start(const std::string& out, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"run", "select.yaml", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return processes.start("weft", arguments);
  }
  void write(const std::string& points, int cap = cap_mib()) {
    processes.write("select.yaml", fmt::format(R"(name: chosen
app: select
cluster: {{memory: {}MiB, hosts: [{{name: worker0, devices: 2}}]}}
input: {{generated: {}}}
selection: {{budget: 10%, alpha: 0.9, partitions: 8, rounds: 3}}
scratch: scratch
)",
                                               cap, points));
  }
  nlohmann::json summary(const std::string& out) const {
    return nlohmann::json::parse(read_file(processes.directory() / out / "summary.json"));
  }
  /// Waits for the first round. Returns a worker process, or 0 if there is none.
  pid_t worker(const RealProcesses::Process& run) {
    run.word_after("round 1 of");
    for (const pid_t pid : processes.left()) {
      const std::string command = read_file(fmt::format("/proc/{}/cmdline", pid));
      if (command.find("--weft-role=device") != std::string::npos) return pid;
    }
    return 0;
  }

  RealProcesses processes{"select"};
};

TEST_F(Select, ChoosesTheSameWithAnyWorkersAndHostsAndAfterAKill) {
  write("200000");
  auto& first = start("two");
  ASSERT_EQ(first.wait(), 0) << first.text();
  const nlohmann::json one = summary("two");
  EXPECT_EQ(one["chosen"], 20'000);
  EXPECT_GT(one["score"], one["random_score"]);
  EXPECT_EQ(std::filesystem::file_size(processes.directory() / "two/points.u32"), 80'000U);
  EXPECT_THAT(read_file(processes.directory() / "two/progress.svg"),
              HasSubstr("20,000 of 200,000 points"));
  for (const auto& use : one["workers"]) {
    EXPECT_LT(use["peak_bytes"], cap_mib() << 20);
    EXPECT_LE(use["shard_reads"], 32 * 4) << "half the shards, once a round and once at the end";
  }
  for (const char* hosts : {"[{name: worker0}]", "[{name: worker0, devices: 8}]",
                            "[{name: worker0}, {name: worker1, devices: 2}, {name: worker2}]"}) {
    auto& run = start("other", {"--set", std::string("cluster.hosts=") + hosts});
    ASSERT_EQ(run.wait(), 0) << run.text();
    EXPECT_EQ(summary("other")["digest"], one["digest"]) << hosts;
  }
  auto& killed = start("killed");
  const pid_t victim = worker(killed);
  ASSERT_NE(victim, 0) << killed.text();
  ::kill(victim, SIGKILL);
  ASSERT_EQ(killed.wait(), 0) << killed.text();
  EXPECT_THAT(killed.text(),
              AllOf(HasSubstr("died: SIGKILL"), HasSubstr("; replaced, restart 1 of 3")));
  EXPECT_EQ(summary("killed")["digest"], one["digest"]);
  EXPECT_TRUE(processes.none_left());
  // The scratch folder has the generated points, but no temporary files.
  for (const auto& entry : std::filesystem::directory_iterator(processes.directory() / "scratch"))
    EXPECT_THAT(entry.path().filename().string(), HasSubstr("generated-200000-1"));
}

TEST_F(Select, HostsWithoutTheInputGetTheirRowsAndKeepTheirPoints) {
  if (::geteuid() != 0) GTEST_SKIP() << "hosts with file systems of their own need root";
  constexpr std::size_t kRows = 3000, kColumns = 8;
  std::vector<float> vectors(kRows * kColumns);
  PhiloxStream random(3);
  for (float& value : vectors) value = uniform_float(random() >> 32) - 0.3F;
  write_npy(processes.directory() / "vectors.npy", kColumns, vectors);
  processes.write("select.yaml", R"(name: chosen
app: select
cluster: {hosts: [{name: worker0}, {name: worker1}, {name: worker2}]}
input: {path: vectors.npy}
selection: {budget: 300, partitions: 4, rounds: 2}
scratch: scratch
)");
  auto& one = start("one");
  ASSERT_EQ(one.wait(), 0) << one.text();
  const nlohmann::json expected = summary("one");
  std::filesystem::remove_all(processes.directory() / "scratch");

  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  // worker1 and worker2 have their own scratch folders, as separate machines have.
  std::filesystem::create_directories(processes.directory() / "scratch");
  processes.write("host", R"(mount --make-rprivate / && mount -t tmpfs none scratch && exec "$@")");
  for (const char* name : {"worker0", "worker1", "worker2"}) {
    const std::vector<std::string> join = {processes.program("weft").string(), "join", address,
                                           "--name", name};
    std::vector<std::string> apart = {"-m", "sh", (processes.directory() / "host").string()};
    apart.insert(apart.end(), join.begin(), join.end());
    auto& host = std::string(name) == "worker0"
                     ? processes.start("weft", {join.begin() + 1, join.end()})
                     : processes.start("/usr/bin/unshare", apart);
    host.word_after("has joined cluster");
  }
  for (const char* out : {"apart", "again"}) {
    auto& run = start(out, {"--head", address, "--set", "cluster.launcher=manual"});
    ASSERT_EQ(run.wait(), 0) << run.text();
    EXPECT_THAT(run.text(), HasSubstr("the hosts of 2 of 3 workers do not have it"));
    EXPECT_EQ(summary(out)["digest"], expected["digest"]);
    EXPECT_EQ(summary(out)["graph"]["was_there"], std::string(out) == "again");
  }
}

TEST_F(Select, ADriverThatIsKilledIsStartedAgainAndGoesOn) {
  write("200000");
  auto& whole = start("whole", {"--set", "selection.rounds=8"});
  ASSERT_EQ(whole.wait(), 0) << whole.text();
  auto& killed = start("killed", {"--set", "selection.rounds=8"});
  killed.word_after("round 2 of");
  pid_t driver = 0;
  for (const pid_t pid : processes.left())
    if (read_file(fmt::format("/proc/{}/cmdline", pid)).find("--weft-role=driver") !=
        std::string::npos)
      driver = pid;
  ASSERT_NE(driver, 0) << killed.text();
  ::kill(driver, SIGKILL);
  ASSERT_EQ(killed.wait(), 0) << killed.text();
  EXPECT_THAT(killed.text(), HasSubstr("resuming after 0 steps of bounding and "));
  EXPECT_EQ(summary("killed")["digest"], summary("whole")["digest"]);
  EXPECT_TRUE(processes.none_left());
}

TEST_F(Select, ACapThatIsTooSmallIsRefusedAndNamesTheLeast) {
  write("200000", 32);
  auto& check = processes.run("weft", {"check", "select.yaml"});
  EXPECT_EQ(check.wait(), 2);
  EXPECT_THAT(check.text(),
              AllOf(HasSubstr("select.yaml: cluster.memory is 32 MiB, too small to select from "
                              "200000 points in 8 partitions; set it to at least "),
                    HasSubstr(" MiB, or use more partitions")));
}

TEST_F(Select, AnInputIsPlannedByWhatItsFileSaysBeforeItIsRead) {
  write_npy(processes.directory() / "vectors.npy", 8, std::vector<float>(24'000, 0.5F));
  write("1000", 32);
  const std::vector<std::string> file = {"select.yaml", "--set", "input={path: vectors.npy}"};
  const auto run = [&](const char* command, std::vector<std::string> more) -> auto& {
    more.insert(more.begin(), file.begin(), file.end());
    more.insert(more.begin(), command);
    auto& process = processes.run("weft", more);
    process.wait();
    return process;
  };
  const auto& plan = run("plan", {"--set", "cluster.memory=64MiB"});
  EXPECT_THAT(plan.text(), AllOf(HasSubstr("3,000 points, 16.0 neighbours each"),
                                 HasSubstr("to choose   300\n"), HasSubstr("of 8 partitions"),
                                 HasSubstr("all points are compared with each other; "),
                                 HasSubstr("; the cap is 64 MiB")));
  EXPECT_FALSE(std::filesystem::exists(processes.directory() / "scratch")) << "nothing is made";
  for (const auto& [key, text] : std::vector<std::pair<std::string, std::string>>{
           {"name=x",
            "select.yaml: cluster.memory is 32 MiB, too small to make the graph of 3000 points of "
            "8 numbers each; set it to at least "},
           {"selection.budget=3001", "select.yaml: selection.budget asks for 3001 of 3000 points"},
           {"input={path: none.npy}", "select.yaml: input: there is no file or folder "}})
    EXPECT_THAT(run("check", {"--set", key}).text(), HasSubstr(text)) << key;
  // The error names no run file, because there is none.
  auto& select = processes.run("weft", {"select", "none.npy"});
  EXPECT_EQ(select.wait(), 2);
  EXPECT_THAT(select.text(), ::testing::StartsWith("input: there is no file or folder "));
}

TEST_F(Select, NothingIsWrittenWhereAnotherUserWaitsForIt) {
  const auto temporary = processes.directory() / "tmp", precious = processes.write("precious", "-");
  std::filesystem::create_directory(temporary);
  std::filesystem::permissions(temporary, std::filesystem::perms(0777));
  for (int next = 1; next < 1000; ++next)
    std::filesystem::create_symlink(
        precious, temporary / fmt::format("weft-select-{}.yaml", ::getpid() + next));
  write_npy(processes.directory() / "vectors.npy", 8, std::vector<float>(4'000, 0.5F));
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", temporary.c_str(), 1);
  auto& select = processes.run("weft", {"select", "vectors.npy", "--budget", "40", "--out", "out"});
  kept.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
  EXPECT_EQ(select.wait(), 0) << select.text();
  EXPECT_EQ(read_file(precious), "-");
  for (const auto& entry : std::filesystem::directory_iterator(temporary))
    EXPECT_TRUE(entry.is_symlink()) << entry.path();
}

TEST_F(Select, OfTwoRunsAtOnceTheSecondFindsThePoints) {
  std::vector<float> vectors(3000 * 8);
  PhiloxStream random(5);
  for (float& value : vectors) value = uniform_float(random() >> 32) - 0.4F;
  write_npy(processes.directory() / "vectors.npy", 8, vectors);
  write("1000");
  std::vector<RealProcesses::Process*> runs;
  for (const char* out : {"one", "two"})
    runs.push_back(&start(out, {"--set", "input={path: vectors.npy}"}));
  for (auto* run : runs) EXPECT_EQ(run->wait(), 0) << run->text();
  const nlohmann::json one = summary("one"), two = summary("two");
  EXPECT_EQ(one["digest"], two["digest"]);
  EXPECT_NE(one["graph"]["was_there"], two["graph"]["was_there"]);
}

TEST_F(Select, ASpareThatTookThePlaceOfAHostIsThereForBothSetsOfWorkers) {
  std::vector<float> vectors(6000 * 16);
  PhiloxStream random(7);
  for (float& value : vectors) value = uniform_float(random() >> 32) - 0.5F;
  write_npy(processes.directory() / "vectors.npy", 16, vectors);
  processes.write("select.yaml", R"(name: chosen
app: select
cluster:
  launcher: manual
  hosts: [{name: worker0}, {name: worker1}, {name: worker2}]
recovery: {spares: [worker2]}
input: {path: vectors.npy}
selection: {budget: 10%, partitions: 8, rounds: 4}
scratch: scratch
)");
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  std::vector<RealProcesses::Process*> hosts;
  for (const char* name : {"worker0", "worker1", "worker2"}) {
    hosts.push_back(&processes.start("weft", {"join", address, "--name", name, "--devices", "1"}));
    hosts.back()->word_after("has joined cluster");
  }
  auto& run = start("out", {"--head", address});
  run.word_after("input: ");
  ::kill(hosts[1]->pid, SIGKILL);
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(), HasSubstr("worker1"));
  EXPECT_EQ(summary("out")["chosen"], 600);
  EXPECT_EQ(processes.run("weft", {"stop", "--head", address}).wait(), 0);
  EXPECT_TRUE(processes.none_left());
}

TEST_F(Select, RowsOfParquetFilesAreChosenByTheirIds) {
  std::string problem = apps::parquet_problem();
  if (problem.empty()) problem = write_parquet_files(processes.directory());
  if (!problem.empty()) GTEST_SKIP() << problem;
  auto& run =
      processes.run("weft", {"select", "ring.parquet", "--budget", "10%", "--out", "chosen",
                             "--set", "input.utility=margin", "--set", "input.neighbors=edges"});
  ASSERT_EQ(run.wait(), 0) << run.text();
  const auto reader = apps::parquet_library().open(processes.directory() /
                                                   "chosen/chosen.parquet/part-00000.parquet");
  reader->select({.id = "id", .utility = "utility"});
  apps::ParquetRows rows;
  ASSERT_TRUE(reader->next(rows));
  EXPECT_EQ(rows.count, 100U);
  std::istringstream table(read_file(processes.directory() / "chosen/chosen.tsv"));
  std::string line;
  std::getline(table, line);
  EXPECT_EQ(line, "point\tutility\tgain\tdecided_by\tid\tpath\trow");
  for (std::size_t i = 0; i < rows.count && std::getline(table, line); ++i) {
    const std::string point = line.substr(0, line.find('\t'));
    EXPECT_EQ(rows.ids[i], apps::RowId("doc-" + point));
    EXPECT_THAT(line, AllOf(HasSubstr(fmt::format("\t{:.5f}\t", rows.utilities[i])),
                            HasSubstr("\tdoc-" + point + "\t")));
  }
}

TEST_F(Select, WrongValuesAreTold) {
  write("1000");
  for (const auto& [key, text] : std::vector<std::pair<std::string, std::string>>{
           {"selection.budget=0%", "selection.budget: how many points to choose is a share"},
           {"selection.budget=2000", "selection.budget asks for 2000 of 1000 points"},
           {"selection.weights=[1, 2, 3]", "two whole numbers"},
           {"selection.bounding=exactly", "selection.bounding"},
           {"selection.partitons=4", "unknown key 'partitons'"},
           {"selection.partitions=0", "selection.partitions"},
           {"input={points: nowhere}", "points.json does not exist"}}) {
    auto& check = processes.run("weft", {"check", "select.yaml", "--set", key});
    EXPECT_NE(check.wait(), 0) << key;
    EXPECT_THAT(check.text(), HasSubstr(text)) << key;
  }
}

}  // namespace
}  // namespace weft::test
