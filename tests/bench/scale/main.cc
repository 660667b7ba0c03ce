// Runs many agents on this machine, each with one idle device process. Measures the time to join
// and to start, the cost of each process, and whether a live process is ever reported dead.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "actors/launch/app_main.h"
#include "apps/bench/test_cluster.h"
#include "apps/cluster_view/why.h"
#include "core/base/clock.h"

namespace weft {
namespace {

/// Smallest possible actor of a device process.
class Bare final {
 public:
  explicit Bare(actors::Context& context) : context_(context) {}
  std::int64_t pid() const { return ::getpid(); }
  /// Blocks the actor's thread, like a hanging handler, until the stop token is set.
  void hang() const {
    while (!context_.stop_token().stop_requested())
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  static constexpr auto endpoints = actors::interface<"bench.bare", 1>(
      actors::on<&Bare::pid>("pid"), actors::on<&Bare::hang>("hang"));

 private:
  actors::Context& context_;
};

struct Options {
  int agents = 1000;
  int idle_seconds = 10;
};

double seconds_of(const std::function<void()>& work) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  work();
  return in_seconds(clock.now() - begin);
}

/// Returns the proportional set size of a process in MiB: shared pages count by their share.
double pss_mib(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid));
  for (std::string key; file >> key;) {
    if (key == "Pss:") {
      double kib = 0;
      file >> kib;
      return kib / 1024;
    }
  }
  return 0;
}

/// Returns the CPU seconds that a process has used.
double cpu_seconds(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / ::sysconf(_SC_CLK_TCK);
}

double mean_pss(const std::vector<std::int64_t>& pids) {
  double total = 0;
  for (const std::int64_t pid : pids) total += pss_mib(pid);
  return total / pids.size();
}

/// Times of `weft why` while the handlers of all devices hang: connecting, asking, and formatting
/// the reply. `silent` counts the processes that did not reply.
struct WhyTimes {
  std::vector<double> seconds;
  std::size_t silent = 0;
};
WhyTimes measure_why(const actors::ActorMesh<Bare>& devices, const std::string& head) {
  auto hanging = devices.within(actors::kNoDeadline).call<&Bare::hang>();
  const auto ask = [&] {
    apps::HeadClient observer({head}, "why");
    const apps::WaitReport why = apps::survey_waits(observer, "", std::chrono::milliseconds(400));
    (void)apps::to_text(why.graph, std::nullopt);
    return devices.size() -
           std::ranges::count_if(why.graph.waiters, [](const apps::WaitNode& waiter) {
             return !waiter.running.empty() && waiter.running[0].method == "hang";
           });
  };
  // Wait until the calls have arrived.
  const SteadyClock clock;
  for (const TimePoint limit = clock.now() + std::chrono::seconds(10);
       ask() > 0 && clock.now() < limit;) {
  }
  WhyTimes times;
  constexpr int kTimes = 20;
  for (int i = 0; i < kTimes; ++i)
    times.seconds.push_back(seconds_of([&] { times.silent += ask(); }));
  hanging.cancel();
  std::ranges::sort(times.seconds);
  return times;
}

int measure(const Options& options) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("scale.{}", ::getpid());
  apps::TestCluster::Options cluster_options;
  cluster_options.name = "scale";
  cluster_options.executable = std::filesystem::read_symlink("/proc/self/exe");
  cluster_options.directory = folder;
  cluster_options.hosts = options.agents;
  std::optional<apps::TestCluster> processes;
  const double join = seconds_of([&] { processes.emplace(cluster_options); });
  actors::Cluster& cluster = processes->cluster();

  const actors::ClusterStatus joined = cluster.status();
  std::vector<std::int64_t> agents;
  for (const actors::HostStatus& host : joined.hosts) agents.push_back(host.offer.pid);
  fmt::print("{} agents join               {:8.2f} s\n", options.agents, join);
  fmt::print("memory of an agent (PSS)     {:8.2f} MiB\n", mean_pss(agents));
  const double before = cpu_seconds(joined.pid);
  std::this_thread::sleep_for(std::chrono::seconds(options.idle_seconds));
  fmt::print("head, idle                   {:8.1f} % of a core\n",
             100 * (cpu_seconds(joined.pid) - before) / options.idle_seconds);
  fmt::print("weft status                  {:8.3f} s\n", seconds_of([&] { cluster.status(); }));
  std::fflush(stdout);

  std::size_t answered = 0;
  std::string failure;
  try {
    std::optional<actors::ActorMesh<Bare>> devices;
    const double spawn = seconds_of([&] {
      devices = cluster.spawn<Bare>("bare", MeshShape{{"host", options.agents}},
                                    {.needs = {.devices = 1}});
    });
    fmt::print("a device process on each     {:8.2f} s\n", spawn);
    std::vector<std::int64_t> pids;
    const double call = seconds_of([&] { pids = devices->call<&Bare::pid>().get(); });
    answered = pids.size();
    fmt::print("a call to all of them        {:8.3f} s\n", call);
    fmt::print("memory of a device (PSS)     {:8.2f} MiB\n", mean_pss(pids));
    const WhyTimes why = measure_why(*devices, joined.address);
    fmt::print("weft why, hung handlers      {:8.3f} s median, {:.3f} s at most; {} silent\n",
               why.seconds[why.seconds.size() / 2], why.seconds.back(), why.silent);
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(options.idle_seconds));
    answered = devices->call<&Bare::pid>().get().size();
    const double back = seconds_of([&] {
      processes->replace_head();
      const auto away = [](const actors::HostStatus& host) {
        return host.unreachable_seconds.has_value();
      };
      while (std::ranges::any_of(cluster.status().hosts, away))
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
    fmt::print("all back at the next head    {:8.2f} s\n", back);
    answered = devices->call<&Bare::pid>().get().size();
  } catch (const Error& error) {
    failure = error.message();
  }
  const std::size_t left = cluster.status().hosts.size();
  fmt::print("told dead: {} of {} agents, {} devices\n", options.agents - left, options.agents,
             options.agents - answered);
  if (!failure.empty()) fmt::print("{}\n", failure);
  processes.reset();
  std::filesystem::remove_all(folder);
  return failure.empty() && left == agents.size() ? 0 : 1;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Many agents with one device process each, on this machine");
  app.add_option("--agents", options.agents, "How many")->capture_default_str();
  app.add_option("--idle", options.idle_seconds, "Seconds to do nothing in")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return measure(options);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const bool has_role = argc > 1 && std::string_view(argv[1]).starts_with("--weft-role");
  if (!has_role) {
    try {
      return weft::run(argc, argv);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      return 1;
    }
  }
  weft::actors::AppMain app(argc, argv);
  app.provide<weft::Bare>();
  return app.run([](weft::actors::Cluster&, const weft::actors::AppRun&) { return 1; });
}
