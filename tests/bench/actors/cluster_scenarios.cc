#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "actors/mailbox/credit.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/statistics.h"
#include "tests/bench/actor_call/call_times.h"
#include "tests/bench/actor_call/raw_tcp.h"
#include "tests/bench/actors/scenarios.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using actors::ActorMesh;
using actors::Cluster;
using actors::Context;
using actors::SpawnOptions;
using nlohmann::json;

using Payload = std::array<std::byte, kMessageBytes>;

/// Outstanding calls of `pipelined`.
constexpr int kWindow = 1000;
/// Number of callers, and of actors that they call.
constexpr int kPairs = 4;
/// Outstanding calls of a caller that is an actor. A handler that makes more without credit gets an
/// error.
constexpr int kOutstanding = static_cast<int>(actors::kMaxHeldCalls);
constexpr auto kLongCall = 10min;

/// Actor that returns its argument.
class Echo final {
 public:
  explicit Echo(Context&) {}
  Payload echo(const Payload& payload) const { return payload; }
  std::int64_t pid() const { return ::getpid(); }
  std::int64_t take(const std::vector<float>& values) const { return std::ssize(values); }
  std::vector<float> ones(std::int64_t count) const { return std::vector<float>(count, 1.0F); }
  static constexpr auto endpoints = actors::interface<"bench.actors.echo", 1>(
      actors::on<&Echo::echo>("echo"), actors::on<&Echo::pid>("pid", actors::idempotent),
      actors::on<&Echo::take>("take"), actors::on<&Echo::ones>("ones"));
};

/// Actor that calls the Echo of its own rank.
class Caller final {
 public:
  using Arguments = std::tuple<actors::MeshRef<Echo>>;
  Caller(Context& context, const actors::MeshRef<Echo>& echoes)
      : echo_(echoes.rank(context.place().rank)) {}
  actors::task<void> call(int calls) {
    std::deque<actors::Future<Payload>> replies;
    for (int i = 0; i < calls; ++i) {
      if (std::ssize(replies) == kOutstanding) {
        actors::Future<Payload>& oldest = replies.front();
        (void)co_await oldest;
        replies.pop_front();
      }
      replies.push_back(echo_.call<&Echo::echo>(Payload{}));
    }
    for (auto& reply : replies) (void)co_await reply;
  }
  static constexpr auto endpoints =
      actors::interface<"bench.actors.caller", 1>(actors::on<&Caller::call>("call"));

 private:
  actors::ActorRef<Echo> echo_;
};

/// A process and a thread of its own for each actor.
SpawnOptions own() { return {.process = actors::ActorProcess::kOwn}; }

json call(Cluster& cluster, const ScenarioOptions& options) {
  const auto echo = cluster.spawn<Echo>("echo", own());
  const Latency latency =
      time_calls(options.calls, [&] { (void)echo.call<&Echo::echo>(Payload{}).get(); });
  return {{"median_us", latency.median_us}, {"p99_us", latency.p99_us}};
}

json pipelined(Cluster& cluster, const ScenarioOptions& options) {
  const auto echo = cluster.spawn<Echo>("echo", own());
  const auto ref = echo.ref();
  const auto run = [&](int calls) {
    return pipelined_per_second(calls, kWindow, [&] { return ref.call<&Echo::echo>(Payload{}); });
  };
  (void)run(options.pipelined / 10);
  return {{"calls_per_second", run(options.pipelined)}};
}

json pairs(Cluster& cluster, const ScenarioOptions& options) {
  const auto echoes = cluster.spawn<Echo>("echoes", {{"pair", kPairs}}, own());
  const auto callers = cluster.spawn<Caller>("callers", {{"pair", kPairs}}, own(), echoes.ref());
  const SteadyClock clock;
  const auto run = [&](int calls) {
    const TimePoint begin = clock.now();
    callers.within(kLongCall).call<&Caller::call>(calls).get();
    return kPairs * calls / in_seconds(clock.now() - begin);
  };
  (void)run(options.pipelined / kPairs / 10);
  return {{"calls_per_second", run(options.pipelined / kPairs)}};
}

/// Spawns actors and waits for an answer of each.
ActorMesh<Echo> spawn_and_call(Cluster& cluster, int count, const SpawnOptions& options) {
  auto echoes = cluster.spawn<Echo>("echoes", {{"actor", count}}, options);
  (void)echoes.call<&Echo::echo>(Payload{}).get();
  return echoes;
}

/// Times starts of `count` actors, from the spawn to the last answer.
json time_starts(Cluster& cluster, int repeats, int count, const SpawnOptions& options) {
  const SteadyClock clock;
  std::vector<double> per_second;
  for (int i = 0; i < repeats; ++i) {
    const TimePoint begin = clock.now();
    auto echoes = spawn_and_call(cluster, count, options);
    per_second.push_back(count / in_seconds(clock.now() - begin));
    echoes.stop();
  }
  return {{"actors_per_second", median(per_second)}, {"actors", count}};
}

json start(Cluster& cluster, const ScenarioOptions& options) {
  return time_starts(cluster, options.repeats, options.actors, own());
}

/// The first start includes that of the shared processes.
json start_shared(Cluster& cluster, const ScenarioOptions& options) {
  return time_starts(cluster, options.repeats, options.shared_actors, {});
}

json gather(Cluster& cluster, const ScenarioOptions& options) {
  const auto echoes = spawn_and_call(cluster, options.actors, own());
  const Latency latency =
      time_calls(options.rounds, [&] { (void)echoes.call<&Echo::echo>(Payload{}).get(); });
  return {{"median_us", latency.median_us}, {"actors", options.actors}};
}

/// Numbers of a large argument or result.
constexpr std::int64_t kLargeCount = kLargeBytes / sizeof(float);

json send(Cluster& cluster, const ScenarioOptions& options) {
  const auto echoes = spawn_and_call(cluster, options.actors, own());
  const std::vector<float> values(kLargeCount, 1.0F);
  const Latency latency =
      time_calls(options.large_rounds, [&] { (void)echoes.call<&Echo::take>(values).get(); });
  return {{"median_us", latency.median_us}, {"actors", options.actors}};
}

json reduce(Cluster& cluster, const ScenarioOptions& options) {
  const auto echoes = spawn_and_call(cluster, options.reduced, own());
  std::vector<float> first;
  const Latency latency = time_calls(options.large_rounds, [&] {
    std::vector<float> values = echoes.reduce<&Echo::ones>(actors::sum, kLargeCount).get();
    if (first.empty()) first = values;
    if (values != first || values.front() != static_cast<float>(options.reduced))
      throw_error(ErrorCode::kInternal, "the sum of {} ones is {}", options.reduced,
                  values.front());
  });
  return {{"median_us", latency.median_us}, {"actors", options.reduced}};
}

json restart(Cluster& cluster, const ScenarioOptions& options) {
  constexpr std::size_t kRestarts = 3;
  const SteadyClock clock;
  std::vector<double> ms;
  for (int i = 0; i < options.repeats; ++i) {
    const auto echo =
        cluster.spawn<Echo>(fmt::format("restarted{}", i),
                            {.process = actors::ActorProcess::kOwn, .restarts = kRestarts});
    std::int64_t pid = echo.call<&Echo::pid>().get();
    for (std::size_t kill = 0; kill < kRestarts; ++kill) {
      const TimePoint killed = clock.now();
      ::kill(static_cast<pid_t>(pid), SIGKILL);
      const std::int64_t next = echo.call<&Echo::pid>().get();
      ms.push_back(in_seconds(clock.now() - killed) * 1e3);
      if (next == pid) throw_error(ErrorCode::kInternal, "process {} answered after SIGKILL", pid);
      pid = next;
    }
  }
  return {{"median_ms", median(ms)}, {"most_ms", *std::ranges::max_element(ms)}};
}

using ClusterScenario = json (*)(Cluster&, const ScenarioOptions&);
const std::map<std::string, ClusterScenario> kClusterScenarios = {{"call", call},
                                                                  {"pipelined", pipelined},
                                                                  {"pairs", pairs},
                                                                  {"start", start},
                                                                  {"start_shared", start_shared},
                                                                  {"gather", gather},
                                                                  {"restart", restart},
                                                                  {"send", send},
                                                                  {"reduce", reduce}};

}  // namespace

std::vector<std::string> cluster_scenarios() {
  std::vector<std::string> names;
  for (const auto& [name, run] : kClusterScenarios) names.push_back(name);
  return names;
}

json run_cluster_scenario(const std::string& name, Cluster& cluster,
                          const ScenarioOptions& options) {
  return kClusterScenarios.at(name)(cluster, options);
}

void provide_actors(actors::AppMain& app) {
  app.provide<Echo>();
  app.provide<Caller>();
}

}  // namespace weft
