// App for tests. Its actors work, or fail, as the run file says.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "actors/launch/app_main.h"
#include "core/base/clock.h"
#include "core/base/error.h"

namespace weft::test {
namespace {

/// Actor that works by waiting.
class Worker final {
 public:
  explicit Worker(actors::Context& context) : context_(context) {}
  std::int64_t pid() const { return ::getpid(); }
  std::int64_t sum(std::int64_t a, std::int64_t b) const { return a + b; }
  actors::task<void> work(std::int64_t seconds) {
    co_await context_.sleep(std::chrono::seconds(seconds));
  }
  /// Blocks the actor's thread, as a kernel does.
  void compute(std::int64_t seconds) { ::poll(nullptr, 0, seconds * 1000); }
  /// Allocates `bytes` of memory and writes to all of it.
  void hold(std::uint64_t bytes) { held_.assign(bytes, std::byte{1}); }
  /// Calls visit() on the first of `others` with the rest of them, and waits. An actor that occurs
  /// twice waits for itself.
  actors::task<void> visit(std::vector<actors::ActorAddress> others) {
    if (others.empty()) co_return;
    auto next = context_.system().ref<Worker>(others.front()).within(actors::kNoDeadline);
    others.erase(others.begin());
    co_await next.call<&Worker::visit>(others);
  }
  void fail(std::string text) { throw Error(ErrorCode::kInvalidArgument, std::move(text)); }

  static constexpr auto endpoints = actors::interface<"test.worker", 1>(
      actors::on<&Worker::pid>("pid"), actors::on<&Worker::sum>("sum"),
      actors::on<&Worker::work>("work"), actors::on<&Worker::compute>("compute"),
      actors::on<&Worker::hold>("hold"), actors::on<&Worker::visit>("visit"),
      actors::on<&Worker::fail>("fail"));

 private:
  actors::Context& context_;
  std::vector<std::byte> held_;
};

struct Work {
  std::int64_t actors = 1;
  std::int64_t seconds = 0;
  std::int64_t lingers = 0;  ///< seconds that the clean-up waits for an actor
  bool computes = false;
  bool keeps = false;   ///< keeps its host although the host wants to leave
  bool clock = false;   ///< spawns an actor "clock" that outlives the run
  bool circle = false;  ///< each actor waits for the next, the last one for the first
  std::uint64_t resident = 0;
  std::string fail;
  bool crash = false;
  std::vector<std::string> hosts;  ///< ranks fill them in this order
};

Work read_work(const actors::AppRun& run) {
  const ConfigDocument& document = run.document();
  Work work;
  document.try_section([&] {
    for (const auto& host :
         actors::parse_run_header(document, actors::program_directory()).cluster.hosts)
      work.hosts.push_back(host.name);
  });
  document.try_section([&] {
    const ConfigNode section = document.root().at("work");
    section.require("actors", work.actors, {.min = 1});
    section.read("seconds", work.seconds, {.min = 0});
    section.read("lingers", work.lingers, {.min = 0});
    section.read("computes", work.computes);
    section.read("keeps", work.keeps);
    section.read("clock", work.clock);
    section.read("circle", work.circle);
    section.read("crash", work.crash);
    section.read_bytes("resident", work.resident);
    section.read("fail", work.fail);
    section.finish();
  });
  document.finish();
  return work;
}

void say(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

int drive(actors::Cluster& cluster, const actors::AppRun& run) {
  const Work work = read_work(run);
  say(fmt::format("driver pid {}", ::getpid()));
  actors::MeshPlacement where{work.hosts};
  if (work.crash) where.environment.push_back("WEFT_TEST_CRASH=1");
  const auto mesh = cluster.spawn<Worker>("front", MeshShape{{"x", work.actors}},
                                          {.place = where, .needs = {.devices = 1}});
  if (work.clock) {
    actors::SpawnOptions options;
    options.lifetime = actors::Lifetime::kCluster;
    options.needs = {.devices = 1};
    cluster.spawn<Worker>("clock", options).call<&Worker::pid>().get();
  }
  if (work.keeps) cluster.leaving_hosts().on_leave([](const std::string& text) { say(text); });
  const auto pids = mesh.call<&Worker::pid>().get();
  for (std::size_t rank = 0; rank < pids.size(); ++rank)
    say(fmt::format("device {} pid {}", rank, pids[rank]));
  if (!work.fail.empty()) mesh.rank(0).call<&Worker::fail>(work.fail).get();
  if (work.resident != 0) mesh.call<&Worker::hold>(work.resident).get();
  std::int64_t total = 0;
  for (const std::int64_t sum : mesh.call<&Worker::sum>(20, 22).get()) total += sum;
  say(fmt::format("total {}", total));
  const auto patient = mesh.within(actors::kNoDeadline);
  if (work.lingers > 0) {
    run.clean_up_begins();
    patient.call<&Worker::work>(work.lingers).get();
  }
  if (work.seconds == 0) return 0;
  const auto begin = [&]() -> actors::Future<void> {
    std::vector<actors::ActorAddress> circle = mesh.addresses();
    std::rotate(circle.begin(), circle.begin() + 1, circle.end());
    if (work.circle) return patient.rank(0).call<&Worker::visit>(circle);
    if (work.computes) return patient.call<&Worker::compute>(work.seconds);
    return patient.call<&Worker::work>(work.seconds);
  };
  auto waiting = begin();
  const std::stop_callback on_stop(run.stop, [&waiting] { waiting.cancel(); });
  cluster.report_progress({.step = 3,
                           .total_steps = 10,
                           .loss = 1.5,
                           .units_per_second = 100,
                           .unit = "tokens",
                           .seconds_left = 7});
  say("working");
  try {
    waiting.get();
  } catch (const Error&) {
    say(fmt::format("failed at {}", now_ns()));
    throw;
  }
  return 0;
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  if (std::getenv("WEFT_TEST_CRASH") != nullptr && argc > 1 &&
      std::string(argv[1]) == "--weft-role=device")
    std::abort();
  weft::actors::AppMain app(argc, argv);
  app.provide<weft::test::Worker>();
  app.on_check([](const weft::actors::AppRun& run) {
    weft::test::read_work(run);
    return 0;
  });
  return app.run(weft::test::drive);
}
