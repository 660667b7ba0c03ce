// Times planning, and compares the predicted time of each strategy's plan with the physical limit,
// for every benchmark case, for layouts of 2 to 1,024 hosts, and for cases with a limit on planning
// time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/base/units.h"
#include "tests/support/played_flows.h"
#include "transfer/reshard/plan.h"
#include "transfer/reshard_cases/reshard_case.h"
#include "transfer/reshard_cases/shard_by_mesh.h"

namespace weft::transfer {
namespace {

constexpr double kRate = 119.5e6;  // payload of a 1 Gbit/s link

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Outcome {
  double plan_seconds = 0;
  double ratio = 0;  ///< Physical limit divided by the predicted time.
  std::size_t flows = 0;
  std::string note;
};

Outcome measure(const ReshardCase& c, ReshardAlgorithm strategy) {
  const Network network = c.network(kRate);
  const auto start = std::chrono::steady_clock::now();
  const ReshardPlan plan = plan_reshard(c.tasks, c.topology, network, strategy);
  Outcome outcome{seconds_since(start), 0, plan.flows.size(), plan.note};
  outcome.ratio = plan.predicted_seconds > 0 ? plan.limit.seconds / plan.predicted_seconds : 1;
  return outcome;
}

nlohmann::json table(const std::string& title, const std::vector<ReshardCase>& cases,
                     const std::vector<ReshardAlgorithm>& strategies) {
  nlohmann::json rows = nlohmann::json::array();
  fmt::print("\n{}: limit over predicted time (planning time)\n{:<22}{:>6}{:>10}", title, "case",
             "hosts", "limit");
  for (const ReshardAlgorithm strategy : strategies) fmt::print("{:>19}", to_string(strategy));
  fmt::print("\n");
  for (const ReshardCase& c : cases) {
    std::vector<std::string> notes;
    for (std::size_t i = 0; i < strategies.size(); ++i) {
      const Outcome outcome = measure(c, strategies[i]);
      if (i == 0) {
        const double limit =
            plan_reshard(c.tasks, c.topology, c.network(kRate), ReshardAlgorithm::kBroadcastNaive)
                .limit.seconds;
        fmt::print("{:<22}{:>6}{:>10}", c.name, c.topology.num_hosts(), format_seconds(limit));
      }
      fmt::print("{:>8.3f}{:>11}", outcome.ratio,
                 fmt::format("({})", format_seconds(outcome.plan_seconds)));
      if (!outcome.note.empty()) notes.push_back(outcome.note);
      rows.push_back({{"case", c.name},
                      {"hosts", c.topology.num_hosts()},
                      {"bytes", c.bytes()},
                      {"strategy", std::string(to_string(strategies[i]))},
                      {"ratio_to_limit", outcome.ratio},
                      {"plan_seconds", outcome.plan_seconds},
                      {"flows", outcome.flows}});
    }
    for (const std::string& note : notes) fmt::print("  {}", note);
    fmt::print("\n");
    std::fflush(stdout);
  }
  return rows;
}

/// Returns `count` tensors, sharded over all devices of `hosts` hosts of 8, to go to 8-way
/// tensor-parallel replicas on as many other hosts.
std::vector<ReshardTask> model(int count, int hosts) {
  std::vector<ReshardTask> tasks;
  for (int i = 0; i < count; ++i) {
    const Shape shape = {8192 + 1024 * (i % 7), 64 + i % 3};
    const std::uint32_t devices = static_cast<std::uint32_t>(hosts) * 8;
    tasks.push_back({{DType::kF32, shape},
                     shard_by_mesh(shape, {0, {hosts, 8}, {{0, 1}, {}}}),
                     shard_by_mesh(shape, {devices, {hosts, 8}, {{1}, {}}})});
  }
  return tasks;
}

nlohmann::json planning_times(bool small) {
  const int hosts = small ? 4 : 128, tensors = small ? 20 : 1000;
  const std::vector<ReshardTask> tasks = model(tensors, hosts);
  const Topology topology = Topology::dense(std::vector<int>(2 * hosts, 8));
  const Network network = Network::uniform(topology.num_hosts(), kRate);
  auto start = std::chrono::steady_clock::now();
  const ReshardPlan plan = plan_reshard(tasks, topology, network, ReshardAlgorithm::kWeft);
  const double many = seconds_since(start);
  fmt::print("\n{} tensors, {} -> {} devices: {} ({} flows)\n", tensors, 8 * hosts, 8 * hosts,
             format_seconds(many), plan.flows.size());
  nlohmann::json result = {{"many_tensors_seconds", many}};
  for (int number = 1; number <= 8; ++number) {
    const ReshardCase c =
        reshard_case(fmt::format("layout-{}", number), {std::uint64_t{256} << 20, small ? 8 : 64});
    start = std::chrono::steady_clock::now();
    const ReshardPlan one =
        plan_reshard(c.tasks, c.topology, c.network(kRate), ReshardAlgorithm::kWeft);
    const double seconds = seconds_since(start);
    fmt::print("one task on {} hosts, {}: {} ({} flows)\n", c.topology.num_hosts(), c.name,
               format_seconds(seconds), one.flows.size());
    result[c.name + "_seconds"] = seconds;
  }
  return result;
}

/// Compares three simulations of a plan's flows: as fluids in the planner's time steps, as fluids
/// exactly, and as tasks of simulate_tasks().
void beside_player(const std::vector<ReshardCase>& cases) {
  fmt::print("{:<22}{:<14}{:>7}{:>12}{:>12}{:>12}{:>9}{:>9}{:>12}\n", "case", "strategy", "flows",
             "planner", "exact", "player", "tasks", "ratio", "difference");
  const auto timed = [](const auto& call) {
    const auto start = std::chrono::steady_clock::now();
    const double predicted = call();
    return std::pair(seconds_since(start), predicted);
  };
  for (const ReshardCase& c : cases) {
    const Network network = c.network(kRate);
    for (const ReshardAlgorithm strategy :
         {ReshardAlgorithm::kSendRecv, ReshardAlgorithm::kBroadcast, ReshardAlgorithm::kWeft}) {
      const ReshardPlan plan = plan_reshard(c.tasks, c.topology, network, strategy);
      SimulateOptions options{.send_slots = plan.egress_slots};
      const auto exact = timed([&] {  //
        return simulate(plan.flows, c.topology, network, options).seconds;
      });
      options.resolution_seconds = plan.predicted_seconds / 2000;
      const auto planner = timed([&] {  //
        return simulate(plan.flows, c.topology, network, options).seconds;
      });
      std::size_t tasks = 0;
      const auto played = timed([&] {
        const test::PlayedFlows one =
            test::play_flows(plan.flows, c.topology, network, plan.egress_slots);
        tasks = one.tasks;
        return one.seconds;
      });
      fmt::print("{:<22}{:<14}{:>7}{:>12}{:>12}{:>12}{:>9}{:>9.1f}{:>11.1f}%\n", c.name,
                 to_string(strategy), plan.flows.size(), format_seconds(planner.first),
                 format_seconds(exact.first), format_seconds(played.first), tasks,
                 played.first / planner.first,
                 exact.second > 0 ? 100 * (played.second / exact.second - 1) : 0.0);
      std::fflush(stdout);
    }
  }
}

int run(int argc, char** argv) {
  CLI::App app("Planning times and simulated ratios to the physical limit");
  bool small = false, planning = false, player = false;
  std::uint64_t mebibytes = 64;
  std::string json_path, only;
  app.add_flag("--small", small, "A few cases, as a test");
  app.add_flag("--planning", planning, "Only the planning times");
  app.add_flag("--player", player, "Only what simulating costs, beside the one player of tasks");
  app.add_option("--mib", mebibytes, "Size of a case in MiB");
  app.add_option("--case", only, "This case only; prints its plan under weft");
  app.add_option("--json", json_path, "Also write the figures there");
  CLI11_PARSE(app, argc, argv);
  const std::uint64_t bytes = mebibytes << 20;
  const std::vector<ReshardAlgorithm> all(kStrategies.rbegin(), kStrategies.rend());
  nlohmann::json report;
  if (!only.empty()) {
    const ReshardCase c = reshard_case(only, {bytes, 0});
    fmt::print("{}\n", to_string(plan_reshard(c.tasks, c.topology, c.network(kRate),
                                              ReshardAlgorithm::kWeft)));
    table(only, {c}, all);
    return 0;
  }
  if (planning) {
    planning_times(small);
    return 0;
  }
  std::vector<ReshardCase> cases;
  for (const std::string& name :
       small ? std::vector<std::string>{"paper-6", "layout-5", "slow-relay"} : reshard_case_names())
    cases.push_back(reshard_case(name, {bytes, 0}));
  if (player || small) beside_player(cases);
  if (player) return 0;
  report["cases"] = table(fmt::format("{} MiB at 1 Gbit/s", mebibytes), cases, all);
  report["planning"] = planning_times(small);
  const std::vector<ReshardAlgorithm> curve = {
      ReshardAlgorithm::kWeft, ReshardAlgorithm::kBroadcast, ReshardAlgorithm::kBroadcastNaive,
      ReshardAlgorithm::kLocalAllgather, ReshardAlgorithm::kSendRecv};
  report["curve"] = nlohmann::json::array();
  for (int number = 1; number <= 8; ++number) {
    std::vector<ReshardCase> sizes;
    for (int hosts = 2; hosts <= (small ? 8 : 1024); hosts *= 2)
      sizes.push_back(
          reshard_case(fmt::format("layout-{}", number), {std::uint64_t{1} << 30, hosts}));
    for (const nlohmann::json& row :
         table(fmt::format("{}, 1 GiB", sizes.back().description), sizes, curve))
      report["curve"].push_back(row);
  }
  if (!json_path.empty()) {
    std::FILE* file = std::fopen(json_path.c_str(), "w");
    if (file == nullptr) {
      fmt::print(stderr, "cannot write {}\n", json_path);
      return 1;
    }
    fmt::print(file, "{}\n", report.dump(1));
    std::fclose(file);
  }
  return 0;
}

}  // namespace
}  // namespace weft::transfer

int main(int argc, char** argv) { return weft::transfer::run(argc, argv); }
