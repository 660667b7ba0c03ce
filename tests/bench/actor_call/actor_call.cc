// Times a 64-byte actor call between two processes, in plaintext and over TLS. The baseline of the
// same run is a raw TCP ping-pong, with and without a hand-over between threads. Also times
// pipelined calls, in calls per second.

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "actors/system/system.h"
#include "core/base/clock.h"
#include "core/base/statistics.h"
#include "tests/bench/actor_call/call_times.h"
#include "tests/bench/actor_call/raw_tcp.h"
#include "tests/bench/actor_call/server_process.h"
#include "tests/support/cluster_token.h"

namespace weft {
namespace {

using Payload = std::array<std::byte, kMessageBytes>;

/// Actor that returns its argument.
class Echo final {
 public:
  explicit Echo(actors::Context&) {}
  Payload echo(const Payload& payload) const { return payload; }
  static constexpr auto endpoints =
      actors::interface<"bench.echo", 1>(actors::on<&Echo::echo>("echo"));
};

struct Options {
  int rounds = 5;
  int calls = 4000;
  int pipelined = 300000;
  int window = 1000;
  bool pin = false;
  bool json = false;
};

/// Pins this process and its future threads to the `index`-th of its processors.
void pin_to(int index) {
  cpu_set_t may, one;
  WEFT_CHECK(::sched_getaffinity(0, sizeof may, &may) == 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &may) && index-- == 0) CPU_SET(cpu, &one);
  WEFT_CHECK(::sched_setaffinity(0, sizeof one, &one) == 0, "--pin needs two processors");
}

actors::SystemOptions system_options(const std::string& name, actors::TlsMode tls) {
  actors::SystemOptions options;
  options.name = name;
  options.token = test::cluster_token();
  options.tls = tls;
  return options;
}

/// Measurements of one kind of connection, by round.
struct Calls {
  std::vector<double> median_us, p99_us, ratio, ratio_hand_over, per_second;

  void add(const actors::ActorRef<Echo>& echo, const Options& options, const Latency& floor,
           const Latency& with_threads) {
    const Latency call =
        time_calls(options.calls, [&] { (void)echo.call<&Echo::echo>(Payload{}).get(); });
    median_us.push_back(call.median_us);
    p99_us.push_back(call.p99_us);
    ratio.push_back(call.median_us / floor.median_us);
    ratio_hand_over.push_back(call.median_us / with_threads.median_us);
    per_second.push_back(pipelined_per_second(options.pipelined, options.window,
                                              [&] { return echo.call<&Echo::echo>(Payload{}); }));
  }
  double best_per_second() const { return *std::max_element(per_second.begin(), per_second.end()); }
};

int run(const Options& options) {
  const auto raw = [&options](HandOver hand_over) {
    return [&options, hand_over](const auto& tell_port) {
      if (options.pin) pin_to(1);
      const Listening listening = listen_on_loopback();
      tell_port(listening.port);
      serve_raw(listening.socket, hand_over);
    };
  };
  // Fork all processes before this one has threads.
  const ServerProcess raw_server(raw(HandOver::kNone));
  const ServerProcess hand_over_server(raw(HandOver::kThreads));
  const auto actors_with = [&options](actors::TlsMode tls) {
    return [&options, tls](const auto& tell_port) {
      if (options.pin) pin_to(1);
      actors::System system(system_options("server", tls));
      (void)system.host<Echo>("echo");
      tell_port(system.listen({"127.0.0.1", 0}).port);
      while (true) ::pause();
    };
  };
  const ServerProcess actor_server(actors_with(actors::TlsMode::kBeyondLoopback));
  const ServerProcess tls_server(actors_with(actors::TlsMode::kAlways));

  if (options.pin) pin_to(0);
  RawClient raw_client(raw_server.port(), HandOver::kNone);
  RawClient hand_over_client(hand_over_server.port(), HandOver::kThreads);
  actors::System system(system_options("client", actors::TlsMode::kBeyondLoopback));
  const auto echo = system.named<Echo>(system.connect({"127.0.0.1", actor_server.port()}), "echo");
  actors::System tls_system(system_options("client", actors::TlsMode::kAlways));
  const auto tls_echo =
      tls_system.named<Echo>(tls_system.connect({"127.0.0.1", tls_server.port()}), "echo");

  // Interleave the measurements, so that other load on the machine affects all of them. Ratios are
  // taken per round.
  std::vector<double> raw_us, hand_over_us;
  Calls plain, tls;
  for (int round = 0; round < options.rounds; ++round) {
    const Latency floor = time_calls(options.calls, [&] { raw_client.round_trip(); });
    const Latency with_threads = time_calls(options.calls, [&] { hand_over_client.round_trip(); });
    raw_us.push_back(floor.median_us);
    hand_over_us.push_back(with_threads.median_us);
    plain.add(echo, options, floor, with_threads);
    tls.add(tls_echo, options, floor, with_threads);
  }

  if (options.json) {
    const nlohmann::json result = {{"raw_tcp_us", median(raw_us)},
                                   {"raw_tcp_hand_over_us", median(hand_over_us)},
                                   {"actor_call_us", median(plain.median_us)},
                                   {"actor_call_p99_us", median(plain.p99_us)},
                                   {"ratio_to_raw", median(plain.ratio)},
                                   {"ratio_to_raw_hand_over", median(plain.ratio_hand_over)},
                                   {"pipelined_calls_per_second", median(plain.per_second)},
                                   {"best_pipelined_calls_per_second", plain.best_per_second()},
                                   {"tls_actor_call_us", median(tls.median_us)},
                                   {"tls_actor_call_p99_us", median(tls.p99_us)},
                                   {"tls_ratio_to_raw", median(tls.ratio)},
                                   {"tls_ratio_to_raw_hand_over", median(tls.ratio_hand_over)},
                                   {"tls_pipelined_calls_per_second", median(tls.per_second)},
                                   {"tls_best_pipelined_calls_per_second", tls.best_per_second()},
                                   {"rounds", options.rounds},
                                   {"calls_per_round", options.calls},
                                   {"window", options.window}};
    fmt::print("{}\n", result.dump(2));
    return 0;
  }
  fmt::print("64 bytes between two processes, {}; medians of {} rounds of {} calls\n",
             options.pin ? "each on a processor of its own" : "unpinned", options.rounds,
             options.calls);
  fmt::print("  raw TCP ping-pong                      {:8.1f} us\n", median(raw_us));
  fmt::print("  raw TCP ping-pong, threads hand over   {:8.1f} us\n", median(hand_over_us));
  for (const auto& [name, calls] : {std::pair("", &plain), std::pair(" with TLS", &tls)}) {
    fmt::print("  {:<37}  {:8.1f} us   (99 % within {:.1f} us)\n", std::string("actor call") + name,
               median(calls->median_us), median(calls->p99_us));
    fmt::print("    ratio to raw                         {:8.2f}\n", median(calls->ratio));
    fmt::print("    ratio to raw with hand-over          {:8.2f}\n",
               median(calls->ratio_hand_over));
    fmt::print("    pipelined, {} outstanding          {:8.0f} calls/s   (best round {:.0f})\n",
               options.window, median(calls->per_second), calls->best_per_second());
  }
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::Options options;
  CLI::App app{"Times actor calls between two processes, beside raw TCP"};
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000));
  app.add_option("--calls", options.calls, "round trips per round")
      ->check(CLI::Range(10, 10000000));
  app.add_option("--pipelined", options.pipelined, "pipelined calls per round")
      ->check(CLI::Range(10, 100000000));
  app.add_option("--window", options.window, "calls outstanding")->check(CLI::Range(1, 100000));
  app.add_flag("--pin", options.pin,
               "each process on a processor of its own: where the system puts them both decides "
               "more than anything else");
  app.add_flag("--json", options.json);
  CLI11_PARSE(app, argc, argv);
  try {
    return weft::run(options);
  } catch (const weft::Error& error) {
    fmt::print(stderr, "{}\n", error.describe());
    return 1;
  }
}
