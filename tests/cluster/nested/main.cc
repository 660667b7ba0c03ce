// App for tests of actors that spawn actors: runs the scenario that WEFT_TEST_SCENARIO names, and
// ends with status 0 if all went as it should.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/launch/app_main.h"
#include "core/base/clock.h"
#include "core/base/error.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using actors::ActorProcess;
using actors::Cluster;
using actors::SpawnOptions;

/// File to which nodes append their names when they end. Messages of a process that ends may be
/// lost.
class Record final {
 public:
  explicit Record(const std::string& name = "ends") : file_(std::filesystem::absolute(name)) {}
  const std::string& file() const { return file_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    std::ifstream lines(file_);
    for (std::string line; std::getline(lines, line);) names.push_back(line);
    return names;
  }

 private:
  const std::string file_;
};

SpawnOptions own_process(SpawnOptions options = {}) {
  options.process = ActorProcess::kOwn;
  return options;
}

/// Actor that spawns others of its class.
class Node final {
 public:
  struct State {
    std::int64_t pid = 0;
    std::uint32_t attempt = 0;
    int sum = 0;
    int decisions = 0;
    static constexpr auto fields =
        weft::fields(&State::pid, &State::attempt, &State::sum, &State::decisions);
  };
  using Arguments = std::tuple<std::string, std::int64_t>;
  /// `record`: see Record. `delay_ms`: time that the constructor takes.
  Node(actors::Context& context, std::string record, std::int64_t delay_ms)
      : context_(context), record_(std::move(record)), never_(context.make_wakeup()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  }
  ~Node() { std::ofstream(record_, std::ios::app) << context_.name() + "\n"; }

  int add(int number) { return sum_ += number; }
  State state() const { return {::getpid(), context_.restart_info().attempt, sum_, decisions_}; }
  /// Spawns a child with the policy of that name.
  actors::task<actors::ActorRef<Node>> spawn(std::string name, std::string policy,
                                             std::int64_t delay_ms) {
    SpawnOptions options = own_process();
    if (policy == "restarts") options.restarts = 3;
    if (policy == "escalates") options.on_failure = actors::escalate;
    if (policy == "uses") options.if_exists = actors::IfExists::kUse;
    if (policy == "decides")
      options.decide = [this](const actors::Incident& incident) {
        if (incident.mesh == "kid") ++decisions_;  // on the thread of this actor
        return actors::one_for_one;
      };
    auto spawning = context_.spawn<Node>(name, options, record_, delay_ms);
    auto child = co_await spawning;
    co_return child;
  }
  actors::task<std::int64_t> spawn_mesh(std::string name) {
    auto spawning = context_.spawn<Node>(name, {{"node", 2}}, {.process = ActorProcess::kOwn},
                                         record_, std::int64_t{0});
    const auto team = co_await spawning;
    const auto states = co_await team.call<&Node::state>();
    const auto part = team.slice({{"node", 0, 1}});
    ErrorCode code{};
    try {
      co_await context_.stop(part);
    } catch (const Error& error) {
      code = error.code();
    }
    if (code != ErrorCode::kInvalidArgument)
      throw_error(ErrorCode::kInternal, "a slice was stopped alone");
    co_await context_.stop(team);
    co_return static_cast<std::int64_t>(states.size());
  }
  actors::task<void> stop(std::string name) { co_await context_.stop(name); }
  actors::task<void> stop_child(actors::ActorRef<Node> child) { co_await context_.stop(child); }
  void exit() { context_.exit("enough"); }
  /// Spawns a child some time after the call.
  actors::task<void> spawn_late(std::string name, std::int64_t wait_ms) {
    co_await context_.sleep(std::chrono::milliseconds(wait_ms));
    auto spawning = context_.spawn<Node>(name, own_process(), record_, std::int64_t{0});
    co_await spawning;
  }
  /// Lets another actor spawn children. Calls of the driver would end with it.
  void let_spawn_late(const actors::ActorRef<Node>& other) {
    (void)other.tell<&Node::spawn_late>("late1", std::int64_t{50});
    (void)other.tell<&Node::spawn_late>("late2", std::int64_t{300});
  }
  actors::task<void> wait() { co_await never_.wait(); }
  actors::OnFailure on_failure(const actors::Incident&) {
    ++decisions_;
    return actors::one_for_one;
  }
  static constexpr auto endpoints = actors::interface<"test.node", 1>(
      actors::on<&Node::add>("add"), actors::on<&Node::state>("state", actors::idempotent),
      actors::on<&Node::spawn>("spawn"), actors::on<&Node::spawn_mesh>("spawn_mesh"),
      actors::on<&Node::stop>("stop"), actors::on<&Node::stop_child>("stop_child"),
      actors::on<&Node::exit>("exit"), actors::on<&Node::wait>("wait"),
      actors::on<&Node::spawn_late>("spawn_late"),
      actors::on<&Node::let_spawn_late>("let_spawn_late"),
      actors::on<&Node::on_failure>("on_failure", actors::urgent));

 private:
  actors::Context& context_;
  const std::string record_;
  actors::Wakeup never_;
  int sum_ = 0;
  int decisions_ = 0;
};

void expect(bool truth, const std::string& what) {
  if (!truth) throw Error(ErrorCode::kInternal, "expected: " + what);
}

Error error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error;
  }
  throw Error(ErrorCode::kInternal, "expected an error");
}

void expect_text(const Error& error, const std::string& text) {
  expect(error.message().find(text) != std::string::npos,
         fmt::format("an error with '{}', not '{}'", text, error.message()));
}

void wait_until(const std::string& what, const std::function<bool()>& is_true) {
  const SteadyClock clock;
  for (const TimePoint end = clock.now() + 20s; !is_true(); std::this_thread::sleep_for(10ms))
    expect(clock.now() < end, what);
}

using Root = actors::OwnedActor<Node>;

Root root(Cluster& cluster, const Record& record, SpawnOptions options = {},
          const std::string& name = "root") {
  return cluster.spawn<Node>(name, own_process(std::move(options)), record.file(), std::int64_t{0});
}

actors::ActorRef<Node> child(const actors::ActorRef<Node>& parent, const std::string& name,
                             const std::string& policy = "", std::int64_t delay_ms = 0) {
  return parent.call<&Node::spawn>(name, policy, delay_ms).get();
}

/// Kills the process of an actor, and returns the state of its next incarnation.
Node::State kill_and_wait(const actors::ActorRef<Node>& node) {
  ::kill(static_cast<pid_t>(node.call<&Node::state>().get().pid), SIGKILL);
  return node.call<&Node::state>().get();
}

void expect_record(const Record& record, const std::vector<std::string>& names) {
  const auto now = record.names();
  expect(now == names, fmt::format("the ends {}, not {}", names, now));
}

void tree(Cluster& cluster) {
  const Record record;
  auto top = root(cluster, record);
  const auto a = child(top.ref(), "a");
  const auto b = child(a, "b");
  const auto c = child(b, "c");
  const auto d = child(top.ref(), "d");
  expect(cluster.find<Node>("c").call<&Node::add>(1).get() == 1, "the driver finds it by name");
  expect(c.call<&Node::add>(1).get() == 2, "the handle is that of the actor");
  expect_text(error_of([&] { (void)child(d, "a"); }), "has actors named 'a' already");
  expect(child(d, "c", "uses").call<&Node::add>(1).get() == 3, "the existing one is used");
  top.stop();
  expect_record(record, {"d", "c", "b", "a", "root"});
  expect(error_of([&] { (void)cluster.find<Node>("c", 300ms); }).code() == ErrorCode::kNotFound,
         "its name ends with it");
}

void stops(Cluster& cluster) {
  const Record record;
  {
    const auto top = root(cluster, record);
    const auto a = child(top.ref(), "a");
    (void)child(a, "b");
    (void)child(top.ref(), "d");
    top.call<&Node::stop>("a").get();
    expect_record(record, {"b", "a"});
    expect_text(error_of([&] { top.call<&Node::stop>("a").get(); }),
                "root has no children named 'a'");
    const auto again = child(top.ref(), "a");
    expect_text(error_of([&] { again.call<&Node::stop>("d").get(); }),
                "a has no children named 'd'");
    top.call<&Node::stop_child>(again).get();
    expect_record(record, {"b", "a", "a"});
    expect(top.call<&Node::spawn_mesh>("team").get() == 2, "a mesh of children");
    cluster.stop_actors("d");
    expect(record.names().back() == "d", "an operator stops it");
    (void)child(top.ref(), "d");
  }
  expect(record.names().back() == "root", "the owner's end stops all");
  expect(error_of([&] { (void)cluster.find<Node>("d", 300ms); }).code() == ErrorCode::kNotFound,
         "a child stops with its parent");
}

void killed(Cluster& cluster) {
  const Record record;
  const auto top = root(cluster, record, {.restarts = 3});
  auto kid = child(top.ref(), "kid", "restarts");
  const auto kid_of_kid = child(kid, "kid2");
  for (int round = 1; round <= 2; ++round) {
    const std::int64_t pid = kid.call<&Node::state>().get().pid;
    kill_and_wait(top.ref());
    kid = child(top.ref(), "kid", "restarts");  // the name is free
    expect(kid.call<&Node::state>().get().pid != pid, "a new child");
    const auto names = record.names();
    expect(names.back() == "kid", "the child of the dead parent was stopped");
    if (round == 1) expect(names.front() == "kid2", "after its own child");
  }
  // A restarted child keeps its name, and loses its own children.
  (void)child(kid, "kid2");
  expect(kill_and_wait(kid).attempt == 1, "the child is restarted by its policy");
  expect(child(kid, "kid2").call<&Node::add>(1).get() == 1, "and spawns again");
}

void exits(Cluster& cluster) {
  const Record record;
  const auto top = root(cluster, record);
  const auto kid = child(top.ref(), "kid");
  (void)child(kid, "kid2");
  kid.call<&Node::exit>().get();
  wait_until("the child of an actor that ended itself stops",
             [&] { return record.names().size() == 2; });
  expect_text(error_of([&] { (void)kid.call<&Node::state>().get(); }), "has ended: enough");
  wait_until("the names are free", [&] {
    try {
      (void)child(top.ref(), "kid");
      return true;
    } catch (const Error& error) {
      expect_text(error, "already");
      return false;
    }
  });
  top.call<&Node::exit>().get();
  wait_until("the children of the root stop", [&] { return record.names().size() == 4; });
}

void escalates(Cluster& cluster) {
  const Record record;
  const auto top = root(cluster, record);
  const auto kid = child(top.ref(), "kid", "escalates");
  ::kill(static_cast<pid_t>(kid.call<&Node::state>().get().pid), SIGKILL);
  expect_text(error_of([&] { (void)kid.call<&Node::state>().get(); }), "SIGKILL");
  expect(top.call<&Node::add>(1).get() == 1, "other actors go on");
  wait_until("its name is free", [&] {
    try {
      return child(top.ref(), "kid", "escalates").call<&Node::add>(1).get() == 1;
    } catch (const Error& error) {
      expect_text(error, "already");
      return false;
    }
  });
}

void decides(Cluster& cluster) {
  const Record record;
  const auto top = root(cluster, record);
  int decisions = 0;
  for (const std::string policy : {"decides", ""}) {  // option, and method "on_failure"
    const auto kid = child(top.ref(), "kid", policy);
    for (int round = 1; round <= 2; ++round) {
      expect(kill_and_wait(kid).attempt == static_cast<std::uint32_t>(round),
             "the parent has decided to restart it");
      expect(top.call<&Node::state>().get().decisions == ++decisions, "once");
    }
    top.call<&Node::stop>("kid").get();
  }
}

void cancelled(Cluster& cluster) {
  const Record record;
  auto top = root(cluster, record);
  // The constructor takes longer than the call.
  expect(error_of([&] {
           (void)top.within(700ms).call<&Node::spawn>("slow", "", std::int64_t{2000}).get();
         }).code() == ErrorCode::kDeadlineExceeded,
         "the deadline of the handler is that of the spawn");
  wait_until("the child that nobody waits for is stopped",
             [&] { return record.names() == std::vector<std::string>{"slow"}; });
  auto pending = top.call<&Node::spawn>("slower", "", std::int64_t{1000});
  std::this_thread::sleep_for(500ms);
  top.stop();
  (void)error_of([&] { (void)pending.get(); });
  expect(
      error_of([&] { (void)cluster.find<Node>("slower", 300ms); }).code() == ErrorCode::kNotFound,
      "the child is stopped with its parent");
  const auto again = root(cluster, record);
  expect(child(again.ref(), "slower").call<&Node::add>(1).get() == 1, "the name is free");
}

/// An actor of the driver's own process.
void hosted(Cluster& cluster) {
  const Record record;
  const auto own = cluster.system().host<Node>("own", record.file(), std::int64_t{0});
  const auto kid = own.call<&Node::spawn>("kid", "", std::int64_t{0}).get();
  expect(kid.call<&Node::add>(1).get() == 1, "it spawns");
  (void)cluster.find<Node>("kid", 0s);  // asks once
  own.call<&Node::stop>("kid").get();
  expect_record(record, {"kid"});
  expect(error_of([&] { (void)cluster.find<Node>("kid", 0s); }).code() == ErrorCode::kNotFound,
         "its name has gone");
  own.stop().get();
}

/// Children of an actor that the head's keeper owns.
void kept(Cluster& cluster) {
  const Record record;
  SpawnOptions options;
  options.restarts = 3;
  options.lifetime = actors::Lifetime::kCluster;
  auto top = root(cluster, record, options);
  const auto kid = child(top.ref(), "kid", "restarts");
  expect(cluster.find<Node>("cluster/kid").call<&Node::add>(1).get() == 1, "it has a name there");
  expect(kill_and_wait(kid).attempt == 1, "the keeper restarts it");
  (void)child(kid, "kid2");
  kill_and_wait(top.ref());
  expect(record.names() == std::vector<std::string>{"kid2", "kid"}, "they end with their parent");
  expect(child(top.ref(), "kid").call<&Node::add>(1).get() == 1, "the name is free");
  top.stop();
  expect_record(record, {"kid2", "kid", "kid", "root"});
}

/// Spawns children. The first driver then waits until it is killed, and after it the process of
/// "lost". The next driver has the children of "root" again; those of "lost" end.
void adopted(Cluster& cluster, const actors::AppRun& run) {
  const Record record;
  const Record of_lost("ends of lost");
  auto top = root(cluster, record, {.restarts = 3});
  auto lost = root(cluster, of_lost, {.restarts = 3}, "lost");
  if (run.restart == 0) {
    (void)child(child(lost.ref(), "lost1"), "lost2");
    fmt::print("lost pid {}\n", lost.call<&Node::state>().get().pid);
    const auto kid = child(top.ref(), "kid");
    expect(child(kid, "kid2", "restarts").call<&Node::add>(1).get() == 1, "new");
    kid.call<&Node::let_spawn_late>(top.ref()).get();
    fmt::print("driver pid {}\n", ::getpid());
    std::fflush(stdout);
    kid.within(actors::kNoDeadline).call<&Node::wait>().get();
  }
  wait_until("the children of a lost parent end", [&] { return of_lost.names().size() == 2; });
  for (const char* const name : {"lost1", "lost2"})
    expect(error_of([&] { (void)cluster.find<Node>(name, 0s); }).code() == ErrorCode::kNotFound,
           "their names end");
  expect(lost.call<&Node::state>().get().attempt == 1, "the parent is restarted");
  const auto kid2 = cluster.find<Node>("kid2");
  expect(kid2.call<&Node::add>(1).get() == 2, "the grandchild has kept its state");
  for (const char* const name : {"late1", "late2"}) (void)cluster.find<Node>(name, 20s);
  expect(kill_and_wait(kid2).attempt == 1, "its policy holds");
  expect_text(error_of([&] { (void)child(top.ref(), "kid"); }), "has actors named 'kid' already");
  top.stop();
  expect_record(record, {"late2", "late1", "kid2", "kid", "root"});
  fmt::print("adopted\n");
}

const std::map<std::string, void (*)(Cluster&)> kScenarios = {
    {"tree", tree},           {"stops", stops},         {"killed", killed},
    {"exits", exits},         {"escalates", escalates}, {"decides", decides},
    {"cancelled", cancelled}, {"hosted", hosted},       {"kept", kept}};

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  weft::actors::AppMain app(argc, argv);
  app.provide<weft::test::Node>();
  app.allow_restarts();
  return app.run([](weft::actors::Cluster& cluster, const weft::actors::AppRun& run) {
    const std::string scenario = std::getenv("WEFT_TEST_SCENARIO");
    if (scenario == "adopted") weft::test::adopted(cluster, run);
    else weft::test::kScenarios.at(scenario)(cluster);
    return 0;
  });
}
