#include "apps/reshard_bench/bench_case.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"

namespace weft::apps {
namespace {

/// Small messages: one host to four, where latency and not bandwidth decides.
constexpr std::pair<const char*, std::uint64_t> kSmall[] = {
    {"small-64K", 64 << 10}, {"small-256K", 256 << 10}, {"small-1M", 1 << 20}};
constexpr const char* kSmallCase = "device-to-4x1";
constexpr const char* kKilledRelay = "killed-relay";

std::vector<std::string> case_names() {
  std::vector<std::string> names = transfer::reshard_case_names();
  for (const auto& [name, bytes] : kSmall) names.emplace_back(name);
  names.emplace_back(kKilledRelay);
  return names;
}

transfer::ReshardCase make_case(const std::string& name, const BenchOptions& options) {
  for (const auto& [small, bytes] : kSmall) {
    if (name != small) continue;
    transfer::ReshardCase made = transfer::reshard_case(kSmallCase, {bytes, 0});
    made.name = name;
    return made;
  }
  transfer::ReshardCase made = transfer::reshard_case(name == kKilledRelay ? "device-to-4x2" : name, {options.bytes, 0});
  made.name = name;
  const auto most = static_cast<std::size_t>(options.hosts);
  if (made.topology.num_hosts() > most && name.starts_with("layout-"))
    made = transfer::reshard_case(name, {options.bytes, options.hosts});
  return made;
}

}  // namespace

std::size_t BenchCase::num_nics() const {
  std::size_t most = 1;
  for (const auto& links : reshard.links) most = std::max(most, links.size());
  return most;
}

std::uint64_t rate_for(std::size_t hosts) { return hosts <= 4 ? 500'000'000 : hosts <= 5 ? 400'000'000 : 250'000'000; }

std::vector<BenchCase> bench_cases(const BenchOptions& options) {
  const std::vector<std::string> all = case_names();
  std::vector<std::string> wanted = options.cases.empty() ? all : options.cases;
  // What a larger case of the same kind shows as well.
  if (options.quick && options.cases.empty())
    for (const char* left_out : {"device-to-1x1", "device-to-1x2", "device-to-1x3", "device-to-2x2", "device-to-3x2",
                                 "slow-holder", "small-256K", "small-1M"})
      std::erase(wanted, left_out);
  std::vector<BenchCase> cases;
  for (const std::string& name : wanted) {
    if (std::find(all.begin(), all.end(), name) == all.end())
      throw_error(ErrorCode::kInvalidArgument, "there is no case '{}'; the cases: {}", name, fmt::join(all, ", "));
    BenchCase made{make_case(name, options), options.rate_bits, name == kKilledRelay};
    if (made.num_hosts() > static_cast<std::size_t>(options.hosts)) {
      if (options.cases.empty()) continue;
      throw_error(ErrorCode::kInvalidArgument, "case {} needs {} hosts: --hosts {}", name, made.num_hosts(), made.num_hosts());
    }
    if (made.rate_bits == 0) made.rate_bits = rate_for(made.num_hosts());
    cases.push_back(std::move(made));
  }
  return cases;
}

std::vector<std::string> bench_strategies(const BenchOptions& options) {
  std::vector<std::string> all;
  for (const transfer::Strategy strategy : transfer::kStrategies) all.emplace_back(to_string(strategy));
  if (!options.strategies.empty()) {
    for (const std::string& name : options.strategies) transfer::parse_strategy(name);  // throws, listing them
    return options.strategies;
  }
  std::reverse(all.begin(), all.end());  // the default first
  if (options.quick)
    std::erase_if(all, [](const std::string& name) { return name != "weft" && name != "broadcast" && name != "send_recv"; });
  return all;
}

}  // namespace weft::apps
