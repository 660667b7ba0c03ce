#include "apps/bench/reshard/bench_case.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "apps/cli/random_request.h"
#include "apps/cli/reshard_request.h"
#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/base/nearest.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

/// Cases with small messages from one host to four, where latency decides rather than bandwidth.
constexpr std::pair<const char*, std::uint64_t> kSmall[] = {
    {"small-64K", 64 << 10}, {"small-256K", 256 << 10}, {"small-1M", 1 << 20}};
constexpr const char* kSmallCase = "device-to-4x1";
constexpr const char* kKilledRelay = "killed-relay";
/// Limits of a user's task. Each device has an engine with its own thread and connections to all
/// other devices.
constexpr std::size_t kMostHosts = 64, kMostDevices = 256;

std::vector<std::string> case_names() {
  std::vector<std::string> names = transfer::reshard_case_names();
  for (const auto& [name, bytes] : kSmall) names.emplace_back(name);
  names.emplace_back(kKilledRelay);
  return names;
}

transfer::ReshardCase make_case(const std::string& name, const ReshardBenchOptions& options) {
  for (const auto& [small, bytes] : kSmall) {
    if (name != small) continue;
    transfer::ReshardCase made = transfer::reshard_case(kSmallCase, {bytes, 0});
    made.name = name;
    return made;
  }
  transfer::ReshardCase made =
      transfer::reshard_case(name == kKilledRelay ? "device-to-4x2" : name, {options.bytes, 0});
  made.name = name;
  const std::size_t most = options.hosts;
  if (made.topology.num_hosts() > most && name.starts_with("layout-"))
    made = transfer::reshard_case(name, {options.bytes, options.hosts});
  return made;
}

/// Returns the total size of the buffers of all hosts of a case, in bytes.
std::uint64_t buffer_bytes(const transfer::ReshardCase& reshard) {
  std::uint64_t sum = 0;
  for (const transfer::ReshardTask& task : reshard.tasks)
    for (std::uint32_t d = 0; d < reshard.topology.num_devices(); ++d)
      for (const Region* region : {task.source_region_of(transfer::DeviceId(d)),
                                   task.destination.region_of(transfer::DeviceId(d))})
        if (region != nullptr) sum += region->num_elements() * size_of(task.type.dtype);
  return sum;
}

BenchCase case_of(const std::string& name, ReshardRequest request, std::uint64_t rate_bits) {
  const auto at_rate = [&](std::uint64_t bits) {
    request.rate = fmt::format("{}mbit", bits * 1e-6);
    return parse_reshard_request(request);
  };
  ReshardProblem problem = at_rate(rate_bits != 0 ? rate_bits : rate_for(1));
  const std::size_t hosts = problem.topology.num_hosts(), devices = problem.topology.num_devices();
  if (hosts > kMostHosts || devices > kMostDevices)
    throw_error(ErrorCode::kInvalidArgument,
                "--from {} --to {}: the task needs {} hosts with {} devices in all; the benchmark "
                "makes at most {} hosts and {} devices",
                request.from, request.to, hosts, devices, kMostHosts, kMostDevices);
  if (rate_bits == 0) {
    rate_bits = rate_for(hosts);
    problem = at_rate(rate_bits);
  }
  BenchCase made{{name,
                  fmt::format("--rate {} {}", request.rate, command_words(request)),
                  problem.topology,
                  {problem.task},
                  {}},
                 rate_bits,
                 false};
  for (const transfer::Network::HostLinks& host : problem.network.hosts)
    made.reshard.links.push_back({host.nics.at(0).ingress * 8 / rate_bits});
  const std::uint64_t needed = buffer_bytes(made.reshard);
  if (const auto free = available_memory(); free && needed > *free)
    throw_error(ErrorCode::kInvalidArgument,
                "{}: the devices hold {} before and after in all, and this machine has {} of "
                "memory to spare; take a smaller --shape",
                made.reshard.description, format_bytes(needed), format_bytes(*free));
  return made;
}

std::vector<BenchCase> random_cases(const RandomTasks& tasks, const ReshardBenchOptions& options) {
  std::vector<BenchCase> cases;
  std::mt19937_64 random(tasks.seed);
  for (std::size_t i = 0; i <= tasks.last; ++i) {
    std::mt19937_64 again = random;
    const std::int64_t bytes = options.bytes;
    std::uint64_t rate = options.rate_bits != 0 ? options.rate_bits : rate_for(1);
    ReshardRequest request = random_reshard_request(random, bytes, rate);
    if (i < tasks.first) continue;
    if (options.rate_bits == 0) {
      // Draws the same task again at the rate that its links allow.
      double links = 0;
      for (const auto& host : parse_reshard_request(request).network.hosts)
        links += host.ingress() * 8 / rate;
      rate = rate_for(links);
      request = random_reshard_request(again, bytes, rate);
    }
    cases.push_back(case_of(fmt::format("random-{}", i), request, rate));
  }
  return cases;
}

}  // namespace

std::size_t BenchCase::num_nics() const {
  std::size_t most = 1;
  for (const auto& links : reshard.links) most = std::max(most, links.size());
  return most;
}

std::uint64_t BenchCase::link_bits(std::size_t host, std::size_t nic) const {
  return std::llround(reshard.links.at(host).at(nic) * rate_bits);
}

std::uint64_t rate_for(double links) {
  if (links <= 8) return links <= 4 ? 500'000'000 : links <= 5 ? 400'000'000 : 250'000'000;
  return static_cast<std::uint64_t>(2000 / links) * 1'000'000;
}

std::vector<BenchCase> bench_cases(const ReshardBenchOptions& options) {
  const std::vector<std::string> all = case_names();
  const bool tasks_only = options.task || options.random;
  std::vector<std::string> wanted = options.cases.empty() && !tasks_only ? all : options.cases;
  // Drops cases whose result a larger case of the same kind shows too.
  if (options.quick && options.cases.empty())
    for (const char* left_out : {"device-to-1x1", "device-to-1x2", "device-to-1x3", "device-to-2x2",
                                 "device-to-3x2", "slow-holder", "small-256K", "small-1M"})
      std::erase(wanted, left_out);
  std::vector<BenchCase> cases;
  for (const std::string& name : wanted) {
    if (std::find(all.begin(), all.end(), name) == all.end())
      throw_error(ErrorCode::kInvalidArgument, "there is no case '{}'; the cases: {}{}", name,
                  fmt::join(all, ", "), did_you_mean(name, all));
    BenchCase made{make_case(name, options), options.rate_bits, name == kKilledRelay};
    if (made.num_hosts() > static_cast<std::size_t>(options.hosts)) {
      if (options.cases.empty()) continue;
      throw_error(ErrorCode::kInvalidArgument, "case {} needs {} hosts: --hosts {}", name,
                  made.num_hosts(), made.num_hosts());
    }
    if (made.rate_bits == 0) made.rate_bits = rate_for(made.num_hosts());
    cases.push_back(std::move(made));
  }
  if (options.task) cases.push_back(case_of("task", *options.task, options.rate_bits));
  if (options.random)
    for (BenchCase& made : random_cases(*options.random, options)) cases.push_back(std::move(made));
  return cases;
}

std::vector<std::string> bench_strategies(const ReshardBenchOptions& options) {
  std::vector<std::string> all;
  for (const transfer::ReshardAlgorithm strategy : transfer::kStrategies)
    all.emplace_back(to_string(strategy));
  if (!options.strategies.empty()) {
    // throws, listing the strategies
    for (const std::string& name : options.strategies) transfer::parse_strategy(name);
    return options.strategies;
  }
  std::reverse(all.begin(), all.end());  // the default comes first
  if (options.quick)
    std::erase_if(all, [](const std::string& name) {
      return name != "weft" && name != "broadcast" && name != "send_recv";
    });
  return all;
}

}  // namespace weft::apps
