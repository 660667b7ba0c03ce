// Labels, resources and reservations, with real processes of several runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Reservations, WaitForOtherRunsAndSurviveTheHead) {
  RealProcesses processes("reservations");
  const auto start_head = [&](const std::string& listen) {
    return &processes.start("weft", {"head", "--listen", listen, "--state", "state"});
  };
  auto* head = start_head("127.0.0.1:0");
  const std::string address = head->word_after("Weft's head listens on ");
  const auto join = [&](const std::string& name, const std::string& devices) {
    processes
        .start("weft",
               {"join", address, "--name", name, "--devices", devices, "--label", "zone=" + name,
                "--resource", "licence=1", "--cpus", "4", "--memory", "2GiB"})
        .word_after("has joined cluster");
  };
  join("a", "2");
  join("b", "2");
  join("c", "0");
  const auto start = [&](const std::string& scenario) {
    ::setenv("WEFT_TEST_SCENARIO", scenario.c_str(), 1);
    processes.write(scenario + ".yaml", "name: " + scenario +
                                            "\napp: reserving_app\n"
                                            "cluster: {hosts: [{name: a}, {name: b}]}\n");
    return &processes.start("weft",
                            {"run", scenario + ".yaml", "--head", address, "--out", scenario});
  };
  const auto output_of = [&](const std::string& command) {
    auto& asked = processes.run("weft", {command, "--head", address});
    EXPECT_EQ(asked.wait(), 0) << asked.text();
    return asked.text();
  };

  auto* too_much = start("asks_too_much");
  EXPECT_EQ(too_much->wait(), 0) << too_much->text();
  EXPECT_THAT(too_much->text(), HasSubstr("cannot hold that even without other users"));
  EXPECT_THAT(too_much->text(), HasSubstr("--devices 1 --resource licence=2 --label zone=b"));
  auto* labels = start("labels");
  EXPECT_EQ(labels->wait(), 0) << labels->text();
  EXPECT_THAT(labels->text(), HasSubstr("pool on b b\n"));
  EXPECT_THAT(labels->text(), HasSubstr("clerk on c\n")) << "a host without devices";

  auto* holding = start("holds");
  EXPECT_EQ(holding->word_after("room on "), "a a");
  holding->word_after("pool serves\n");
  auto* waiting = start("waits");
  const std::string waits =
      "waiting: reservation room of run waits: needs 2 x {devices 1}: 0 of 2 bundles fit now";
  EXPECT_TRUE(eventually([&] { return output_of("status").find(waits) != std::string::npos; }));
  EXPECT_THAT(output_of("why"), HasSubstr(waits));
  EXPECT_THAT(output_of("status"), HasSubstr("room of run holds: 2 x {devices 1} on a; in use by"));

  ::kill(head->pid, SIGKILL);
  (void)head->wait();
  head = start_head(address);
  head->word_after("Weft's head listens on ");
  EXPECT_TRUE(eventually([&] { return output_of("status").find(waits) != std::string::npos; }))
      << "it asks the next head again";
  EXPECT_THAT(output_of("status"), HasSubstr("room of run holds: 2 x {devices 1} on a"));
  EXPECT_THAT(output_of("status"), HasSubstr("a     0 of 4     0 B of 2 GiB"));
  EXPECT_THAT(waiting->text(), Not(HasSubstr("room on")));

  processes.write("train.yaml", R"(name: train
app: training_app
cluster: {launcher: manual, hosts: [{name: a}, {name: b}]}
meshes:
  front: {hosts: [b], shape: {data: 1, tensor: 1}}
  back: {hosts: [a], shape: {data: 1, tensor: 1}}
pipeline:
  stages: [{mesh: front, layers: 2}, {mesh: back, layers: 1}]
  microbatches: 4
training: {steps: 2}
)");
  auto& train = processes.start("weft", {"run", "train.yaml", "--head", address, "--out", "train"});
  const std::string behind =
      "waiting: reservation run-meshes of run train: needs 2 x {devices 1}: reservation room of "
      "run "
      "waits came first";
  EXPECT_TRUE(eventually([&] { return output_of("why").find(behind) != std::string::npos; }));
  EXPECT_THAT(output_of("status"), Not(HasSubstr("mesh front"))) << "no mesh starts without all";
  processes.write("enough", "");
  EXPECT_EQ(holding->wait(), 0) << holding->text();
  EXPECT_THAT(holding->text(), HasSubstr("pool has one new process\n"));
  EXPECT_EQ(waiting->wait(), 0) << waiting->text();
  EXPECT_THAT(waiting->text(), HasSubstr("room on a a\n"));
  EXPECT_THAT(waiting->text(), HasSubstr("2 units\n"));
  EXPECT_EQ(train.wait(), 0) << train.text();
  auto& json = processes.run("weft", {"status", "--json", "--head", address});
  const auto status = nlohmann::json::parse(json.text());
  EXPECT_TRUE(status["reservations"].empty()) << "they end with their runs";
  EXPECT_EQ(status["hosts"][0]["labels"]["zone"], "a");
  EXPECT_EQ(status["hosts"][0]["resources"]["licence"]["total"], 1);
  EXPECT_EQ(processes.run("weft", {"stop", "--head", address}).wait(), 0);
  EXPECT_TRUE(processes.none_left());
}

}  // namespace
}  // namespace weft::test
