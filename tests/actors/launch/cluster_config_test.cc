#include "actors/launch/cluster_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/launch/role_arguments.h"
#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ClusterConfig, ReadsHostsInOrder) {
  const auto document = ConfigDocument::parse(
      "launcher: manual\nhosts: [{name: a, devices: 2}, {name: b}, {name: c, devices: 0}]\n", "f",
      {});
  const ClusterConfig config = parse_cluster(document.root());
  EXPECT_EQ(config.launcher, LauncherKind::kManual);
  ASSERT_EQ(config.hosts.size(), 3u);
  EXPECT_EQ(config.hosts[0].name, "a");
  EXPECT_EQ(config.hosts[0].devices, 2u);
  EXPECT_EQ(config.hosts[1].devices, 1u);
  EXPECT_EQ(config.hosts[2].devices, 0u);
}

TEST(ClusterConfig, ReadsTheResourcesAndLabelsOfHosts) {
  const auto document = ConfigDocument::parse(
      "hosts: [{name: a, cpus: 7.5, memory: 2GiB, resources: {licence: 2}, labels: {zone: b}}, "
      "{name: c}]\n",
      "f", {});
  const ClusterConfig config = parse_cluster(document.root());
  EXPECT_EQ(config.hosts.at(0).capacity,
            (HostCapacity{7.5, std::uint64_t{2} << 30, {{"licence", 2}}, {{"zone", "b"}}}));
  EXPECT_EQ(config.hosts.at(1).capacity, HostCapacity());
  const auto refused = [](const std::string& keys) {
    const auto wrong = ConfigDocument::parse("hosts: [{name: a, " + keys + "}]\n", "f", {});
    return test::error_message(ErrorCode::kInvalidConfig, [&] { parse_cluster(wrong.root()); });
  };
  EXPECT_THAT(refused("resources: {memory: 2}"),
              HasSubstr("'memory' is a resource of each host; give it as --memory"));
  EXPECT_THAT(refused("resources: {licence: 0}"), HasSubstr("a number of 'licence' from 0.001"));
  EXPECT_THAT(refused("labels: {zone: a b}"),
              HasSubstr("the value of label zone: expected a name"));
  EXPECT_THAT(refused("labels: {../x: a}"), HasSubstr("the key of a label: expected a name"));
  EXPECT_THAT(refused("cpus: 0"), HasSubstr("hosts[0].cpus"));
}

TEST(ClusterConfig, LeavesTheKeysAboutDevicesToAnotherReader) {
  const auto document =
      ConfigDocument::parse("cluster: {device: cuda, threads_per_device: 3}\n", "f", {});
  EXPECT_EQ(parse_cluster(document.root().at("cluster")).threads_per_device, 3);
  std::string device;
  parse_cluster(document.root().at("cluster"),
                [&](const ConfigNode& section) { section.read("device", device); });
  EXPECT_EQ(device, "cuda");
  const auto unknown = ConfigDocument::parse("cluster: {devise: cuda}\n", "f", {});
  EXPECT_THAT(
      [&] { parse_cluster(unknown.root().at("cluster")); },
      test::throws_error(ErrorCode::kInvalidConfig, "f:1:11: unknown key 'devise' in cluster"));
}

TEST(ClusterConfig, CapsTheMemoryOfDeviceProcesses) {
  const auto memory = [](const std::string& text) {
    const auto document = ConfigDocument::parse("cluster: {" + text + "}\n", "f", {});
    return parse_cluster(document.root().at("cluster")).memory;
  };
  EXPECT_EQ(memory("memory: 256MiB"), std::uint64_t{256} << 20);
  EXPECT_EQ(memory("memory: 16MiB"), kLeastMemory);
  EXPECT_EQ(memory(""), 0u) << "no cap";
  EXPECT_EQ(memory("memory: 0B"), 0u);
  EXPECT_EQ(memory("memory: 0"), 0u);
  const auto refused = [&](const std::string& text) {
    return test::error_message(ErrorCode::kInvalidConfig, [&] { memory(text); });
  };
  const std::string size =
      "f:1:19: cluster.memory: expected a size with its unit, such as 64KiB, "
      "1.5GiB, found ";
  EXPECT_EQ(refused("memory: 256"), size + "'256'");
  EXPECT_EQ(refused("memory: 256Mib"), size + "'256Mib'");
  EXPECT_EQ(refused("memory: -1GiB"), size + "'-1GiB'");
  EXPECT_EQ(refused("memory: much"), size + "'much'");
  EXPECT_EQ(refused("memory: 8MiB"),
            "f:1:19: cluster.memory: expected a size of at least 16 MiB for each device process, "
            "or 0 for no limit, found 8 MiB");
}

TEST(ClusterConfig, LimitsTheMemoryOfObjects) {
  const auto objects = [](const std::string& text) {
    const auto document = ConfigDocument::parse("cluster: {" + text + "}\n", "f", {});
    return parse_cluster(document.root().at("cluster")).objects;
  };
  EXPECT_EQ(objects("objects: 1GiB"), std::uint64_t{1} << 30);
  EXPECT_EQ(objects(""), 0u) << "a share of the available memory";
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidConfig, [&] { objects("objects: many"); }),
            "f:1:20: cluster.objects: expected a size with its unit, such as 64KiB, 1.5GiB, found "
            "'many'");
}

TEST(ClusterConfig, ReportsAllProblemsAtOnce) {
  const auto document = ConfigDocument::parse(
      "cluster:\n  launcher: locl\n  hosts: [{name: a, devices: 1025}, {name: a}, {nmae: c}]\n  "
      "threads_per_devise: 1\n",
      "f", {});
  EXPECT_EQ(
      test::error_message(ErrorCode::kInvalidConfig,
                          [&] { parse_cluster(document.root().at("cluster")); }),
      "f:2:13: cluster.launcher: expected one of local, manual, found 'locl'; did you mean "
      "'local'?\n"
      "f:3:30: cluster.hosts[0].devices: expected a whole number from 0 to 1024, found '1025'\n"
      "f:3:44: host 'a' is listed twice\n"
      "f:3:49: unknown key 'nmae' in cluster.hosts[2]; did you mean 'name'?\n"
      "f:4:3: unknown key 'threads_per_devise' in cluster; did you mean 'threads_per_device'?");
}

TEST(RecoveryConfig, HasDefaultsAndReadsEverything) {
  const std::vector<HostSpec> hosts = {{"a"}, {"b"}, {"c"}};
  const auto document = ConfigDocument::parse(
      "recovery: {restarts: 5, within: 1h, spares: [c], if_too_few: fail, copy_every: 0}\nnone: "
      "{}\n",
      "f", {});
  const RecoveryConfig config = parse_recovery(document.root().at("recovery"), hosts);
  EXPECT_EQ(config.restarts, 5u);
  EXPECT_EQ(config.within, std::chrono::hours(1));
  EXPECT_TRUE(config.is_spare("c") && !config.is_spare("a"));
  EXPECT_FALSE(config.waits);
  EXPECT_EQ(config.copy_every, 0);
  const RecoveryConfig usual = parse_recovery(document.root().at("none"), hosts);
  EXPECT_EQ(usual.restarts, 3u);
  EXPECT_EQ(usual.within, std::chrono::minutes(10));
  EXPECT_TRUE(usual.waits);
  EXPECT_EQ(usual.copy_every, 10);
}

TEST(RecoveryConfig, ReportsAllProblemsAtOnce) {
  const auto document = ConfigDocument::parse(
      "recovery:\n  restarts: -1\n  spares: [worker3, worker0, worker0]\n  if_too_few: wiat\n  "
      "copyevery: 3\n",
      "f", {});
  EXPECT_EQ(
      test::error_message(
          ErrorCode::kInvalidConfig,
          [&] {
            parse_recovery(document.root().at("recovery"), {{"worker0"}, {"worker1"}, {"worker2"}});
          }),
      "f:2:13: recovery.restarts: expected a whole number from 0 to 1000000, found '-1'\n"
      "f:3:12: recovery.spares[0]: cluster.hosts has no host 'worker3', only worker0, worker1, "
      "worker2; did you mean 'worker0'?\n"
      "f:3:30: host 'worker0' is listed twice\n"
      "f:4:15: recovery.if_too_few: expected one of wait, fail, found 'wiat'; did you mean "
      "'wait'?\n"
      "f:5:3: unknown key 'copyevery' in recovery; did you mean 'copy_every'?");
}

TEST(RunHeader, AnAppWhoseNameIsTooLongDoesNotExist) {
  const std::string path = "/" + std::string(300, 'a');
  const auto document = ConfigDocument::parse("name: x\napp: " + path + "\nmodel: {}\n", "f", {});
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig,
                                  [&] { parse_run_header(document, program_directory()); }),
              HasSubstr("f:2:6: app: there is no executable /aaa"));
}

TEST(RunHeader, FindsTheAppBesideTheProgramAndSaysWhenItIsMissing) {
  const auto document =
      ConfigDocument::parse("name: x\napp: test_actors_lunch\nmodel: {}\n", "f", {});
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig,
                                  [&] { parse_run_header(document, program_directory()); }),
              ::testing::AllOf(HasSubstr("f:2:6: app: there is no executable"),
                               HasSubstr("did you mean 'test_actors_launch'?")));
  const auto good = ConfigDocument::parse("name: x\napp: test_actors_launch\nmodel: {}\n", "f", {});
  EXPECT_EQ(parse_run_header(good, program_directory()).app,
            program_directory() / "test_actors_launch");
}

TEST(RunHeader, NameBecomesAFolderSoItMustBePlain) {
  const auto document = ConfigDocument::parse("name: ../x\napp: nothing_there\n", "f", {});
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig,
                                  [&] { parse_run_header(document, program_directory()); }),
              ::testing::AllOf(HasSubstr("f:1:7: name: expected a name of at most 100 letters"),
                               HasSubstr("f:2:6: app:")));
}

TEST(RunHeader, TheNameOfTheActorsThatOutliveRunsIsReserved) {
  const auto document = ConfigDocument::parse("name: cluster\napp: nothing_there\n", "f", {});
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidConfig,
                                  [&] { parse_run_header(document, program_directory()); }),
              HasSubstr("f:1:7: name: 'cluster' stands for the actors that outlive runs"));
}

TEST(RoleArguments, ReadsBothSpellings) {
  const RoleArguments arguments(
      {"--weft-role=driver", "--set", "a=1", "--set=b=2", "--json", "--slot", "7"}, {"json"});
  EXPECT_EQ(arguments.get("weft-role"), "driver");
  EXPECT_THAT(arguments.all("set"), ElementsAre("a=1", "b=2"));
  EXPECT_TRUE(arguments.has("json"));
  EXPECT_EQ(arguments.number("slot"), 7u);
  EXPECT_THAT(
      [&] { arguments.number("set"); },
      test::throws_error(ErrorCode::kInvalidArgument, "--set b=2: expected a whole number"));
  EXPECT_THAT([&] { arguments.get("out"); },
              test::throws_error(ErrorCode::kInvalidArgument, "--out is missing"));
  EXPECT_THAT([&] { RoleArguments({"--slot"}, {}); },
              test::throws_error(ErrorCode::kInvalidArgument, "--slot needs a value"));
  EXPECT_THAT([&] { RoleArguments({"word"}, {}); },
              test::throws_error(ErrorCode::kInvalidArgument, "unexpected argument 'word'"));
}

TEST(RoleArguments, KeepsThoseThatNobodyAskedForApart) {
  const RoleArguments arguments({"--slot", "7", "--svg=a.svg", "--layouts=1d"}, {});
  EXPECT_EQ(arguments.number("slot"), 7u);
  EXPECT_FALSE(arguments.has("out"));
  EXPECT_TRUE(arguments.has("layouts"));
  const RoleArguments rest = arguments.unread();
  EXPECT_EQ(rest.get("svg"), "a.svg");
  EXPECT_FALSE(rest.has("slot"));
  EXPECT_FALSE(rest.has("layouts"));
}

}  // namespace
}  // namespace weft::actors
