#include "tests/cluster/supervised/shared_scenarios.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <thread>

#include "tests/cluster/supervised/unit.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using actors::Cluster;
using actors::MeshPlacement;

const MeshPlacement kFirstHost{.hosts = {"worker0"}}, kSecondHost{.hosts = {"worker1"}},
    kBothHosts{.hosts = {"worker0", "worker1"}};

std::int64_t pid_of(const actors::OwnedActor<Unit>& unit) {
  return unit.call<&Unit::state>().get().pid;
}

}  // namespace

void shared_many(Cluster& cluster) {
  const auto units = cluster.spawn<Unit>("units", {{"unit", 1000}}, {.place = kBothHosts}, "");
  std::set<std::int64_t> pids;
  for (const Unit::State& state : units.call<&Unit::state>().get()) pids.insert(state.pid);
  expect(pids.size() == 2, fmt::format("two processes, not {}", pids.size()));
  const auto other = cluster.spawn<Unit>("other", {.place = kFirstHost}, "");
  expect(pids.contains(pid_of(other)), "another mesh is in the same process");
  const auto own_process = cluster.spawn<Unit>("own", own({.place = kFirstHost}), "");
  expect(!pids.contains(pid_of(own_process)), "an own process is another one");
  expect_text(error_of([&] { (void)cluster.spawn<Unit>("shared-process", {}, ""); }),
              "cannot be named");
}

void shared_killed(Cluster& cluster) {
  const Mesh restarted =
      cluster.spawn<Unit>("restarted", {{"unit", 4}}, {.place = kBothHosts, .restarts = 3}, "");
  const auto elsewhere = cluster.spawn<Unit>("elsewhere", {.place = kSecondHost}, "");
  restarted.call<&Unit::add>(5).get();
  elsewhere.call<&Unit::add>(5).get();
  {
    const Mesh escalated =
        cluster.spawn<Unit>("escalated", {{"unit", 2}}, {.place = kBothHosts}, "");
    auto running = escalated.rank(0).call<&Unit::wait_once>();
    auto living = escalated.rank(1).call<&Unit::wait_once>();
    const States before = restarted.call<&Unit::state>().get();
    kill(before[0].pid);
    const States after = restarted.call<&Unit::state>().get();
    for (const int rank : {0, 2})
      expect(after[rank].pid != before[rank].pid && after[rank].sum == 0, "the dead are new");
    expect(after[0].pid == after[2].pid, "they share a process again");
    for (const int rank : {1, 3})
      expect(after[rank].pid == before[rank].pid && after[rank].sum == 5, "the others stay");
    expect_text(error_of([&] { (void)running.get(); }),
                "escalated[unit=0] (mesh escalated, rank 0)");
    expect_text(error_of([&] { (void)living.get(); }),
                "escalated[unit=0] (mesh escalated, rank 0)");
    const Error error = error_of([&] { (void)escalated.call<&Unit::state>().get(); });
    expect_text(error, "escalated[unit=0] (mesh escalated, rank 0) on worker0 (pid ");
    expect_text(error, "died: SIGKILL");
  }
  expect(elsewhere.call<&Unit::add>(1).get() == 6, "a mesh on the other host is not touched");
  const Mesh again = cluster.spawn<Unit>("escalated", {{"unit", 2}}, {.place = kBothHosts}, "");
  const States fresh = again.call<&Unit::state>().get();
  expect(fresh[0].sum == 0 && fresh[1].sum == 0, "the mesh can be spawned again");
  expect(fresh[1].pid == pid_of(elsewhere), "in the process that lives");
}

void shared_one_for_all(Cluster& cluster) {
  const Mesh mesh = cluster.spawn<Unit>(
      "units", {{"unit", 2}}, {.place = kBothHosts, .on_failure = actors::one_for_all}, "");
  const auto other = cluster.spawn<Unit>("other", {.place = kSecondHost}, "");
  other.call<&Unit::add>(5).get();
  mesh.call<&Unit::add>(5).get();
  const States before = mesh.call<&Unit::state>().get();
  const auto second = mesh.rank(1).within(20s);
  auto started = second.call<&Unit::wait_once>();
  // Some of these calls wait in this process, as there is credit for fewer.
  std::vector<actors::Future<int>> waiting;
  for (int i = 0; i < 100; ++i) waiting.push_back(second.call<&Unit::add>(1));
  std::this_thread::sleep_for(100ms);
  kill(before[0].pid);
  expect_text(error_of([&] { (void)started.get(); }), "was stopped for a restart");
  for (int i = 0; i < 100; ++i)
    expect(waiting[i].get() == i + 1, "calls that have not started go to the new actor, in order");
  const States after = mesh.call<&Unit::state>().get();
  expect(after[0].pid != before[0].pid && after[1].pid == before[1].pid, "one process is new");
  for (const Unit::State& state : after) expect(state.attempt == 1, "both actors are new");
  expect(other.call<&Unit::add>(1).get() == 6, "other meshes of the process are not touched");
}

void shared_constructor(Cluster& cluster) {
  const Mesh mesh =
      cluster.spawn<Unit>("units", {{"unit", 2}},
                          {.place = kBothHosts, .on_failure = actors::one_for_all}, "fails once");
  kill(mesh.call<&Unit::state>().get()[0].pid);
  (void)mesh.rank(0).call<&Unit::state>().get();
  for (const Unit::State& state : mesh.call<&Unit::state>().get())
    expect(state.attempt == 2, fmt::format("restart 2, not {}", state.attempt));
}

void shared_singles(Cluster& cluster) {
  // An actor holds fewer urgent calls than there are meshes here.
  std::vector<actors::OwnedActor<Unit>> units;
  for (int i = 0; i < 300; ++i)
    units.push_back(
        cluster.spawn<Unit>(fmt::format("unit{}", i), {.place = kFirstHost, .restarts = 3}, ""));
  const std::int64_t pid = pid_of(units.front());
  kill(pid);
  for (const auto& unit : units) expect(pid_of(unit) != pid, "each actor is restarted");
}

void shared_stopped(Cluster& cluster) {
  auto unit = cluster.spawn<Unit>("unit", {.place = kFirstHost}, "");
  const auto other = cluster.spawn<Unit>("other", {.place = kFirstHost}, "");
  const auto asking = cluster.spawn<Unit>("asking", {.place = kSecondHost}, "");
  const auto ref = unit.ref();
  const std::int64_t pid = pid_of(unit);
  expect(asking.call<&Unit::ask>(ref).get() == pid, "another process reaches it");
  expect(pid_of(other) == pid, "both are in one process");
  unit.call<&Unit::add>(5).get();
  unit.stop();
  (void)error_of([&] { (void)ref.call<&Unit::state>().get(); });
  (void)error_of([&] { (void)asking.call<&Unit::ask>(ref).get(); });
  expect(other.call<&Unit::add>(1).get() == 1, "a stop leaves the others");
  const auto again = cluster.spawn<Unit>("unit", {.place = kFirstHost}, "");
  const Unit::State state = again.call<&Unit::state>().get();
  expect(state.pid == pid && state.sum == 0, "a new actor in the same process");
}

void shared_and_head(Cluster& cluster) {
  const auto unit = cluster.spawn<Unit>("unit", {.place = kFirstHost, .restarts = 3}, "");
  const std::int64_t pid = pid_of(unit);
  fmt::print("unit pid {}\n", pid);
  std::fflush(stdout);
  while (!std::filesystem::exists("restarted")) std::this_thread::sleep_for(20ms);
  expect(pid_of(unit) == pid, "the process lives on without the head");
  const auto other = cluster.spawn<Unit>("other", {.place = kFirstHost}, "");
  expect(pid_of(other) == pid, "the next head knows the shared process");
  kill(pid);
  expect(pid_of(unit) != pid, "and restarts its actors");
  expect_text(error_of([&] { (void)other.call<&Unit::state>().get(); }), "mesh other, rank 0");
}

}  // namespace weft::test
