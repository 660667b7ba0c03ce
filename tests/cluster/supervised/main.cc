// App for tests of restart policies: runs the scenario that WEFT_TEST_SCENARIO names, kills its own
// actors, and ends with status 0 if all went as it should.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/head/head.h"
#include "core/base/clock.h"
#include "tests/cluster/supervised/shared_scenarios.h"
#include "tests/cluster/supervised/unit.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using actors::Cluster;
using actors::SpawnOptions;

Mesh three(Cluster& cluster, const SpawnOptions& options, const std::string& mode = "") {
  return cluster.spawn<Unit>("units", {{"unit", 3}}, own(options), mode);
}

/// Kills the second of three actors. Returns the states before and after.
std::pair<States, States> kill_second(const Mesh& mesh) {
  mesh.call<&Unit::add>(5).get();
  const States before = mesh.call<&Unit::state>().get();
  kill(before[1].pid);
  (void)mesh.rank(1).call<&Unit::state>().get();  // waits for the restart
  return {before, mesh.call<&Unit::state>().get()};
}

void one_for_one(Cluster& cluster) {
  const Mesh mesh = three(cluster, {.restarts = 3});
  const auto [before, after] = kill_second(mesh);
  for (const int rank : {0, 2}) {
    expect(after[rank].pid == before[rank].pid, "the others stay");
    expect(after[rank].sum == 5 && after[rank].attempt == 0, "the others keep their state");
  }
  expect(after[1].pid != before[1].pid && after[1].sum == 0, "the dead actor is new");
  expect(after[1].attempt == 1, "it is the first restart");
  expect(after[1].incident.find("SIGKILL") != std::string::npos, "the incident names the signal");
}

void one_for_all(Cluster& cluster) {
  const auto [before, after] = kill_second(three(cluster, {.on_failure = actors::one_for_all}));
  for (int rank = 0; rank < 3; ++rank)
    expect(after[rank].pid != before[rank].pid && after[rank].sum == 0, "all are new");
}

void rest_for_one(Cluster& cluster) {
  const auto [before, after] = kill_second(three(cluster, {.on_failure = actors::rest_for_one}));
  expect(after[0].pid == before[0].pid && after[0].sum == 5, "the first stays");
  for (const int rank : {1, 2}) expect(after[rank].pid != before[rank].pid, "the rest is new");
}

void escalated(Cluster& cluster) {
  int decisions = 0;
  const Mesh mesh = three(cluster, {.decide = [&](const actors::Incident& incident) {
                            expect(incident.mesh == "units", "the incident names the mesh");
                            ++decisions;
                            return actors::escalate;
                          }});
  const auto other = cluster.spawn<Unit>("other", own({.restarts = 1}), "");
  const States before = mesh.call<&Unit::state>().get();
  kill(before[1].pid);
  expect_text(error_of([&] { (void)mesh.call<&Unit::state>().get(); }), "SIGKILL");
  expect(decisions == 1, "the owner decided once");
  expect(other.call<&Unit::add>(1).get() == 1, "other meshes are not touched");
}

void escalated_by_option(Cluster& cluster) {
  {
    const Mesh mesh = three(cluster, {.on_failure = actors::escalate});
    const auto other = cluster.spawn<Unit>("other", own({.restarts = 1}), "");
    kill(mesh.call<&Unit::state>().get()[1].pid);
    expect_text(error_of([&] { (void)mesh.call<&Unit::state>().get(); }), "SIGKILL");
    expect(other.call<&Unit::add>(1).get() == 1, "other meshes are not touched");
  }
  const Mesh again = three(cluster, {.on_failure = actors::escalate});
  expect(again.call<&Unit::state>().get().size() == 3, "the owner can spawn the mesh again");
}

void two_at_once(Cluster& cluster) {
  const Mesh mesh = three(cluster, {.restarts = 5});
  for (int round = 0; round < 2; ++round) {
    const States before = mesh.call<&Unit::state>().get();
    for (const int rank : {0, 2}) kill(before[rank].pid);
    const States after = mesh.call<&Unit::state>().get();
    for (const int rank : {0, 2}) expect(after[rank].pid != before[rank].pid, "both are new");
    expect(after[1].pid == before[1].pid, "the one between stays");
  }
}

void tells(Cluster& cluster) {
  const auto service = cluster.spawn<Unit>("service", own({.restarts = 3}), "");
  const auto caller = cluster.spawn<Unit>("caller", own(), "");
  caller.call<&Unit::tell_to>(service.ref(), 1).get();
  kill(service.call<&Unit::state>().get().pid);
  // Whether the first one is lost depends on when its connection ends. A later one is not.
  (void)service.call<&Unit::state>().get();
  caller.call<&Unit::tell_to>(service.ref(), 10).get();
  caller.call<&Unit::tell_to>(service.ref(), 100).get();
  const SteadyClock clock;
  for (const TimePoint end = clock.now() + 20s; service.call<&Unit::state>().get().sum < 100;)
    expect(clock.now() < end, "one-way calls follow the restart");
}

void budget(Cluster& cluster) {
  const Mesh mesh = three(cluster, {.restarts = 1});
  const auto [before, after] = kill_second(mesh);
  expect(after[1].attempt == 1, "the first death is survived");
  kill(after[1].pid);
  const Error error = error_of([&] { (void)mesh.rank(1).call<&Unit::state>().get(); });
  expect_text(error, "units is not restarted again: it has used its limit of 1 within 600 s");
  expect_text(error, "SIGKILL");
}

void constructor(Cluster& cluster) {
  const auto [before, after] = kill_second(three(cluster, {.restarts = 3}, "fails once"));
  expect(after[1].attempt == 2, fmt::format("restart 2, not {}", after[1].attempt));
  expect(after[0].pid == before[0].pid, "the others stay");
}

void calls(Cluster& cluster) {
  const auto unit = cluster.spawn<Unit>("unit", own({.restarts = 3}), "");
  const std::int64_t pid = unit.call<&Unit::state>().get().pid;
  auto once = unit.call<&Unit::wait_once>();
  auto repeated = unit.within(20s).call<&Unit::wait_for_restart>();
  std::this_thread::sleep_for(100ms);
  kill(pid);
  // Calls in the mailbox behind the first one had left this process.
  expect_text(error_of([&] { (void)once.get(); }), "whether it ran is unknown");
  expect(repeated.get() != pid, "an idempotent call is repeated");
}

void handles(Cluster& cluster) {
  const auto service = cluster.spawn<Unit>("service", own({.restarts = 10}), "");
  const auto caller = cluster.spawn<Unit>("caller", own(), "");
  for (int i = 0; i < 3; ++i) {
    const std::int64_t pid = service.call<&Unit::state>().get().pid;
    expect(caller.call<&Unit::ask>(service.ref()).get() == pid, "the handle reaches the service");
    kill(pid);
    expect(caller.call<&Unit::ask>(service.ref()).get() != pid, "the handle follows a restart");
  }
}

void stopped(Cluster& cluster) {
  auto unit = cluster.spawn<Unit>("unit", own({.restarts = 3}), "");
  const auto ref = unit.ref();
  kill(unit.call<&Unit::state>().get().pid);
  expect(ref.call<&Unit::state>().get().attempt == 1, "it was restarted");
  unit.stop();
  (void)error_of([&] { (void)ref.call<&Unit::state>().get(); });
  // The name and the device are free again.
  const auto again = cluster.spawn<Unit>("unit", own({.restarts = 3}), "");
  expect(again.call<&Unit::state>().get().attempt == 0, "it is a new actor");
}

void names(Cluster& cluster) {
  auto hits = cluster.spawn<Unit>("hits", own({.restarts = 3}), "");
  const Mesh units = three(cluster, {});
  expect(cluster.find<Unit>("hits").call<&Unit::add>(1).get() == 1, "the driver finds it");
  expect(units.rank(0).call<&Unit::add_to>("hits", 1).get() == 2, "an actor finds it");
  expect(cluster.find_mesh<Unit>("units").call<&Unit::state>().get().size() == 3, "a mesh");
  expect_text(error_of([&] { (void)cluster.find<Unit>("units"); }), "is a mesh of 3 actors");

  expect_text(error_of([&] { (void)cluster.spawn<Unit>("hits", own(), ""); }),
              "has actors named 'hits' already (epoch 1, running)");
  auto same = cluster.spawn<Unit>("hits", own({.if_exists = actors::IfExists::kUse}), "");
  expect(same.call<&Unit::add>(1).get() == 3, "the existing one is used");
  expect_text(error_of([&] {
                (void)cluster.spawn<Unit>("units", own({.if_exists = actors::IfExists::kUse}), "");
              }),
              "have the shape");

  const auto before = cluster.find<Unit>("hits");
  kill(hits.call<&Unit::state>().get().pid);
  expect(before.call<&Unit::state>().get().attempt == 1, "the old handle follows");
  expect(cluster.find<Unit>("hits").call<&Unit::add>(1).get() == 1,
         "the name leads to the new one");

  const Error unknown = error_of([&] { (void)cluster.find<Unit>("hitz", 1s); });
  expect(unknown.code() == ErrorCode::kNotFound, "an unknown name is not found");
  expect_text(unknown, "no actor is named 'hitz' in run supervised_app; did you mean 'hits'?");
  same.stop();
  expect(error_of([&] { (void)cluster.find<Unit>("hits", 500ms); }).code() == ErrorCode::kNotFound,
         "the name ends with its actor");
  const auto again = cluster.spawn<Unit>("hits", own(), "");
  expect(again.call<&Unit::add>(1).get() == 1, "the name is free again");
}

/// Serves an actor until the file "over" exists.
void serves(Cluster& cluster) {
  const auto hits = cluster.spawn<Unit>("hits", own({.restarts = 100}), "");
  fmt::print("serving\n");
  std::fflush(stdout);
  while (!std::filesystem::exists("over")) std::this_thread::sleep_for(20ms);
}

/// Finds an actor of another run, and passes its handle through five processes to call it, while
/// the test restarts the head, until the file "enough" exists.
void asks(Cluster& cluster) {
  const auto units = cluster.spawn<Unit>("units", {{"unit", 5}}, own(), "");
  std::vector<actors::ActorRef<Unit>> others;
  for (int rank = 1; rank < 5; ++rank) others.push_back(units.rank(rank));
  int sum = 0;
  while (!std::filesystem::exists("enough")) {
    const int next = units.rank(0).call<&Unit::add_through>("serving/hits", others).get();
    expect(next == ++sum, fmt::format("sum {}, not {}", sum, next));
    if (sum == 1) {
      fmt::print("asking\n");
      std::fflush(stdout);
    }
  }
  fmt::print("{} calls\n", sum);
}

SpawnOptions kept() {
  SpawnOptions options;
  options.restarts = 3;
  options.lifetime = actors::Lifetime::kCluster;
  options.process = actors::ActorProcess::kOwn;
  return options;
}

/// Spawns an actor that outlives this run.
void keeps(Cluster& cluster) {
  const auto hits = cluster.spawn<Unit>("hits", kept(), "");
  expect(hits.call<&Unit::add>(1).get() == 1, "it is new");
  expect_text(error_of([&] { (void)cluster.spawn<Unit>("hits", kept(), ""); }),
              "cluster has actors named 'hits' already");
  fmt::print("unit pid {}\n", hits.call<&Unit::state>().get().pid);
}

/// The same, in a process that actors of the cluster share. Two of them are there.
void keeps_shared(Cluster& cluster) {
  SpawnOptions options = kept();
  options.process = actors::ActorProcess::kShared;
  const auto hits = cluster.spawn<Unit>("hits", options, "");
  const auto others = cluster.spawn<Unit>("others", {{"unit", 3}}, options, "");
  expect(hits.call<&Unit::add>(1).get() == 1, "it is new");
  const std::int64_t pid = hits.call<&Unit::state>().get().pid;
  for (const Unit::State& state : others.call<&Unit::state>().get())
    expect(state.pid == pid, "they share a process");
  fmt::print("unit pid {}\n", pid);
}

/// Finds the actor that keeps() left, kills it, and reaches the next incarnation.
void uses(Cluster& cluster) {
  const auto hits = cluster.find<Unit>("hits", 20s);
  const int sum = hits.call<&Unit::add>(1).get();
  const std::int64_t pid = hits.call<&Unit::state>().get().pid;
  fmt::print("unit pid {}, sum {}\n", pid, sum);
  kill(pid);
  const Unit::State after = hits.call<&Unit::state>().get();
  expect(after.pid != pid && after.sum == 0 && after.attempt == 1, "the head restarts it");
  expect(hits.call<&Unit::add>(1).get() == 1, "it serves");
}

void stops(Cluster& cluster) {
  SpawnOptions options = kept();
  options.if_exists = actors::IfExists::kUse;
  auto hits = cluster.spawn<Unit>("hits", options, "");
  expect(hits.call<&Unit::add>(1).get() > 1, "the existing one is used");
  hits.stop();
  expect(error_of([&] { (void)cluster.find<Unit>("hits", 500ms); }).code() == ErrorCode::kNotFound,
         "it has ended");
}

/// Adds to a service. The first driver then waits until it is killed; the next one finds the sum.
void adopted(Cluster& cluster, const actors::AppRun& run, actors::ActorProcess process) {
  const auto unit = cluster.spawn<Unit>("unit", {.process = process, .restarts = 3}, "");
  const int sum = unit.call<&Unit::add>(1).get();
  fmt::print("driver pid {}\nunit pid {}, sum {}\n", ::getpid(),
             unit.call<&Unit::state>().get().pid, sum);
  std::fflush(stdout);
  if (run.restart == 0) unit.within(actors::kNoDeadline).call<&Unit::wait_once>().get();
}

/// The first driver dies with its actors, which share a process. The next one has a new actor if
/// the policy restarts none; else each is restarted, but the one that had ended itself.
void adopted_lost(Cluster& cluster, const actors::AppRun& run) {
  const auto unit = cluster.spawn<Unit>("unit", {}, "");
  const Mesh units = cluster.spawn<Unit>("units", {{"unit", 3}}, {.restarts = 3}, "");
  const int sum = unit.call<&Unit::add>(1).get();
  for (const int rank : {1, 2})
    expect(units.rank(rank).call<&Unit::add>(rank).get() == rank, "each rank is an actor");
  if (run.restart == 0) units.rank(0).call<&Unit::exit>().get();
  expect_text(error_of([&] { (void)units.rank(0).call<&Unit::state>().get(); }),
              "units[unit=0] has ended");
  if (run.restart == 0) {
    const auto head = cluster.head().head();
    while (
        head.call<&actors::Head::find_actors>(actors::FindActors{"units", 0}).get().ended.empty())
      std::this_thread::sleep_for(10ms);
    kill(unit.call<&Unit::state>().get().pid);
    kill(::getpid());
  }
  fmt::print("the next driver's sum is {}\n", sum);
}

/// Prints the time from SIGKILL to the first answered call, a median of nine.
void latency(Cluster& cluster) {
  const auto unit = cluster.spawn<Unit>("unit", own({.restarts = 100}), "");
  const SteadyClock clock;
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) {
    const std::int64_t pid = unit.call<&Unit::state>().get().pid;
    const TimePoint began = clock.now();
    kill(pid);
    expect(unit.call<&Unit::state>().get().pid != pid, "the new incarnation answers");
    seconds.push_back(in_seconds(clock.now() - began));
  }
  std::ranges::sort(seconds);
  fmt::print("median {:.3f} s, most {:.3f} s\n", seconds[4], seconds.back());
}

const std::map<std::string, void (*)(Cluster&)> kScenarios = {
    {"one_for_one", one_for_one},
    {"one_for_all", one_for_all},
    {"rest_for_one", rest_for_one},
    {"escalated", escalated},
    {"escalated_by_option", escalated_by_option},
    {"two_at_once", two_at_once},
    {"tells", tells},
    {"budget", budget},
    {"constructor", constructor},
    {"calls", calls},
    {"handles", handles},
    {"stopped", stopped},
    {"names", names},
    {"keeps", keeps},
    {"keeps_shared", keeps_shared},
    {"uses", uses},
    {"stops", stops},
    {"serves", serves},
    {"asks", asks},
    {"latency", latency},
    {"shared_many", shared_many},
    {"shared_killed", shared_killed},
    {"shared_one_for_all", shared_one_for_all},
    {"shared_constructor", shared_constructor},
    {"shared_singles", shared_singles},
    {"shared_stopped", shared_stopped},
    {"shared_and_head", shared_and_head}};

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  weft::actors::AppMain app(argc, argv);
  app.provide<weft::test::Unit>();
  app.allow_restarts();
  return app.run([](weft::actors::Cluster& cluster, const weft::actors::AppRun& run) {
    const std::string scenario = std::getenv("WEFT_TEST_SCENARIO");
    using weft::actors::ActorProcess;
    if (scenario == "adopted") weft::test::adopted(cluster, run, ActorProcess::kOwn);
    else if (scenario == "adopted_shared") weft::test::adopted(cluster, run, ActorProcess::kShared);
    else if (scenario == "adopted_lost") weft::test::adopted_lost(cluster, run);
    else weft::test::kScenarios.at(scenario)(cluster);
    return 0;
  });
}
