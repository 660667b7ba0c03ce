// App for tests of reservations: runs the scenario that WEFT_TEST_SCENARIO names.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "actors/launch/app_main.h"
#include "core/base/error.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using actors::Cluster;

class Unit final {
 public:
  using Arguments = std::tuple<>;
  explicit Unit(actors::Context&) {}
  std::int64_t pid() { return ::getpid(); }

  static constexpr auto endpoints = actors::interface<"test.reserving_unit", 1>(
      actors::on<&Unit::pid>("pid", actors::idempotent));
};

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// Reserves two devices of zone a.
actors::Reservation reserve_room(Cluster& cluster, Nanoseconds within) {
  auto room = cluster.reserve("room", {{.devices = 1}, {.devices = 1}},
                              actors::spread().label("zone", "a"), within);
  say(fmt::format("room on {}", fmt::join(room.hosts(), " ")));
  return room;
}

/// Holds a room with a mesh, an actor of which dies, until the file `enough` exists.
void holds(Cluster& cluster) {
  const auto room = reserve_room(cluster, 60s);
  auto pool = cluster.spawn<Unit>("pool", {{"unit", 2}},
                                  {.place = room.place(), .needs = {.devices = 1}, .restarts = 3});
  const auto before = pool.call<&Unit::pid>().get();
  say("pool serves");
  while (!std::filesystem::exists("enough")) std::this_thread::sleep_for(2ms);
  ::kill(static_cast<pid_t>(before.at(1)), SIGKILL);
  std::vector<std::int64_t> after = before;
  while (after.at(1) == before.at(1)) after = pool.within(60s).call<&Unit::pid>().get();
  say(after.at(0) == before.at(0) ? "pool has one new process" : "pool has two new processes");
}

/// Waits for the room of the other run.
void waits(Cluster& cluster) {
  const auto room = reserve_room(cluster, actors::kNoDeadline);
  auto pool =
      cluster.spawn<Unit>("pool", {{"unit", 2}}, {.place = room.place(), .needs = {.devices = 1}});
  say(fmt::format("{} units", pool.call<&Unit::pid>().get().size()));
}

/// Asks for what no host has.
void asks_too_much(Cluster& cluster) {
  try {
    (void)cluster.reserve("room", {{.devices = 1, .custom = {{"licence", 2}}}},
                          actors::pack().label("zone", "b"));
  } catch (const Error& error) {
    say(error.message());
  }
}

/// Spawns without a reservation by labels, also on a host without devices.
void labels(Cluster& cluster) {
  auto pool = cluster.spawn<Unit>(
      "pool", {{"unit", 2}}, {.place = actors::pack().label("zone", "b"), .needs = {.devices = 1}});
  auto clerk = cluster.spawn<Unit>("clerk", {.place = actors::pack().label("zone", "c")});
  (void)clerk.call<&Unit::pid>().get();
  std::map<std::string, std::vector<std::string>> hosts;
  for (const auto& mesh : cluster.status().meshes)
    for (const auto& place : mesh.places) hosts[mesh.key.name].push_back(place.host);
  for (const auto& [name, on] : hosts) say(fmt::format("{} on {}", name, fmt::join(on, " ")));
}

const std::map<std::string, std::function<void(Cluster&)>> kScenarios = {
    {"holds", holds}, {"waits", waits}, {"asks_too_much", asks_too_much}, {"labels", labels}};

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  weft::actors::AppMain app(argc, argv);
  app.provide<weft::test::Unit>();
  app.allow_restarts();
  return app.run([](weft::actors::Cluster& cluster, const weft::actors::AppRun&) {
    weft::test::kScenarios.at(std::getenv("WEFT_TEST_SCENARIO"))(cluster);
    return 0;
  });
}
