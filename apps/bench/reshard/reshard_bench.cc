#include "apps/bench/reshard/reshard_bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "core/base/statistics.h"
#include "core/base/units.h"
#include "transfer/reshard/plan_stats.h"

namespace weft::apps {
namespace {

constexpr double kProbeSeconds = 1.6;

/// Calls each of the first `hosts` hosts concurrently. Returns the results by host.
template <typename R, typename Call>
std::vector<R> on_all(std::size_t hosts, Call&& call) {
  std::vector<actors::Future<R>> futures;
  for (std::size_t i = 0; i < hosts; ++i) futures.push_back(call(i));
  std::vector<R> results;
  for (auto& future : futures) results.push_back(future.get());
  return results;
}
template <typename Call>
void on_all_void(std::size_t hosts, Call&& call) {
  std::vector<actors::Future<void>> futures;
  for (std::size_t i = 0; i < hosts; ++i) futures.push_back(call(i));
  for (auto& future : futures) future.get();
}

/// Returns true if the case has sums.
bool has_sums(const BenchCase& bench) {
  return std::ranges::any_of(
      bench.reshard.tasks, [](const transfer::ReshardTask& task) { return !task.addends.empty(); });
}

/// Returns a deadline far beyond the expected time.
double deadline_of(const BenchResult& result) {
  return 30 + 20 * std::max(result.limit_seconds, result.predicted_seconds);
}

}  // namespace

void ReshardBench::check_stop() const {
  if (options_.stop.stop_requested()) throw_error(ErrorCode::kCancelled, "interrupted");
}

void ReshardBench::shape_links(const BenchCase& bench) {
  if (cluster_.test_hosts() == nullptr) return;
  for (std::size_t host = 0; host < bench.num_hosts(); ++host) {
    for (std::size_t nic = 0; nic < bench.reshard.links[host].size(); ++nic) {
      const std::uint64_t bits = bench.link_bits(host, nic);
      std::uint64_t& now = shaped_[{host, nic}];
      if (now == bits) continue;
      cluster_.test_hosts()->limit(host, nic, bits);
      now = bits;
    }
  }
}

ReshardBench::LinkKinds ReshardBench::link_kinds(const BenchCase& bench) const {
  LinkKinds kinds(bench.num_hosts());
  for (std::size_t h = 0; h < kinds.size(); ++h)
    for (std::size_t nic = 0; nic < bench.reshard.links[h].size(); ++nic)
      kinds[h].push_back(cluster_.test_hosts() == nullptr ? 0 : bench.link_bits(h, nic));
  return kinds;
}

std::vector<std::vector<ReshardBench::LinkRates>> ReshardBench::probe_links(
    const LinkKinds& kinds) {
  const std::size_t hosts = kinds.size();
  const auto listening = on_all<std::vector<actors::Address>>(hosts, [&](std::size_t h) {
    std::vector<std::string> addresses;
    for (std::size_t nic = 0; nic < kinds[h].size(); ++nic)
      addresses.push_back(cluster_.address(h, nic));
    return cluster_.host(h).call<&ReshardHost::listen_for_probe>(addresses);
  });
  std::vector<std::vector<LinkRates>> best(hosts);
  for (std::size_t h = 0; h < hosts; ++h) best[h].resize(kinds[h].size());
  // Each host sends to its neighbour, then to the second next, so that a slow host cannot hide a
  // fast one. A rate tells the speed of the slower end, or of both if their links are of one kind.
  for (std::size_t distance = 1; distance <= std::min<std::size_t>(2, hosts - 1); ++distance) {
    check_stop();
    const std::int64_t start = nanoseconds_in(std::chrono::milliseconds(200));
    const auto rates = on_all<std::vector<double>>(hosts, [&](std::size_t h) {
      const auto& to = listening[(h + distance) % hosts];
      return cluster_.host(h).call<&ReshardHost::probe>(
          RateProbe{{to.begin(), to.begin() + std::min(to.size(), listening[h].size())},
                    start,
                    kProbeSeconds});
    });
    for (std::size_t h = 0; h < hosts; ++h) {
      const std::size_t from = (h + hosts - distance) % hosts;
      for (std::size_t nic = 0; nic < std::min(rates[h].size(), rates[from].size()); ++nic) {
        if (kinds[h][nic] <= kinds[from][nic])
          best[h][nic].in = std::max(best[h][nic].in, rates[h][nic]);
        if (kinds[from][nic] <= kinds[h][nic])
          best[from][nic].out = std::max(best[from][nic].out, rates[h][nic]);
      }
    }
  }
  return best;
}

transfer::Network ReshardBench::network_of(const BenchCase& bench, const LinkKinds& kinds,
                                           const std::vector<std::vector<LinkRates>>& rates) const {
  std::map<std::uint64_t, std::vector<double>> rates_of_kind;
  std::vector<double> shares;  // measured rate over the limit, per link
  for (std::size_t h = 0; h < kinds.size(); ++h) {
    for (std::size_t nic = 0; nic < kinds[h].size(); ++nic) {
      for (const double rate : {rates[h][nic].in, rates[h][nic].out}) {
        if (rate == 0) continue;
        const std::uint64_t bits = kinds[h][nic];
        rates_of_kind[bits].push_back(rate);
        if (bits > 0) shares.push_back(rate / bits);
      }
    }
  }
  for (auto& [bits, same] : rates_of_kind) {
    std::sort(same.begin(), same.end());
    if (same.front() < 0.97 * same.back())
      options_.progress(fmt::format("links {}differ: {:.1f} to {:.1f} MiB/s; is the machine busy?",
                                    bits > 0 ? fmt::format("of {} Mbit/s ", bits / 1'000'000) : "",
                                    same.front() / (1 << 20), same.back() / (1 << 20)));
  }
  // A link that no neighbour can fill gets the same share of its limit as the others reach. A
  // single host gets the nominal share.
  const double share = shares.empty() ? bench.nominal_goodput() / bench.rate_bits : median(shares);
  transfer::Network network;
  for (const std::vector<std::uint64_t>& links : kinds) {
    auto& host = network.hosts.emplace_back();
    for (const std::uint64_t bits : links) {
      // Links of one kind get their median rate, so that planners do not act on noise.
      const auto known = rates_of_kind.find(bits);
      const double rate = known == rates_of_kind.end() ? share * (bits > 0 ? bits : bench.rate_bits)
                                                       : known->second[known->second.size() / 2];
      host.nics.push_back({rate, rate});
    }
  }
  return network;
}

transfer::Network ReshardBench::measure(const BenchCase& bench) {
  const LinkKinds kinds = link_kinds(bench);
  if (const auto known = measured_.find(kinds); known != measured_.end()) return known->second;
  options_.progress(
      fmt::format("measuring the links of {} host{}", kinds.size(), kinds.size() == 1 ? "" : "s"));
  transfer::Network network = network_of(bench, kinds, probe_links(kinds));
  options_.progress(to_string(network));
  measured_[kinds] = network;
  return network;
}

HostTask ReshardBench::task_of(const BenchCase& bench, const transfer::Network& network,
                               std::size_t host) const {
  std::string interfaces = cluster_.test_hosts() == nullptr ? "lo" : "eth0";
  for (std::size_t nic = 1; nic < bench.reshard.links[host].size(); ++nic)
    interfaces += fmt::format(",eth{}", nic);
  return {bench.reshard.topology, bench.reshard.tasks, network,
          transfer::HostId(host), interfaces,          secret_.bytes()};
}

void ReshardBench::load(const BenchCase& bench, const transfer::Network& network) {
  const std::size_t hosts = bench.num_hosts();
  const auto addresses = on_all<std::vector<transfer::PeerAddress>>(hosts, [&](std::size_t h) {
    return cluster_.host(h).call<&ReshardHost::load>(task_of(bench, network, h));
  });
  std::vector<transfer::PeerAddress> all;
  for (const auto& some : addresses) all.insert(all.end(), some.begin(), some.end());
  on_all_void(hosts,
              [&](std::size_t h) { return cluster_.host(h).call<&ReshardHost::connect>(all); });
}

std::vector<InterfaceBytes> ReshardBench::interface_counters(std::size_t hosts) const {
  return on_all<InterfaceBytes>(
      hosts, [&](std::size_t h) { return cluster_.host(h).call<&ReshardHost::interface_bytes>(); });
}

void ReshardBench::check_content(const BenchCase& bench, const std::string& strategy,
                                 std::uint32_t repetition, const std::vector<std::size_t>& hosts) {
  const auto differences = on_all<std::vector<std::string>>(hosts.size(), [&](std::size_t i) {
    return cluster_.host(hosts[i]).call<&ReshardHost::differences>(repetition);
  });
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (differences[i].empty()) continue;
    throw_error(ErrorCode::kDataLoss,
                "case {}, strategy {}, repetition {}: host {} received wrong data: {}",
                bench.reshard.name, strategy, repetition, hosts[i],
                fmt::join(differences[i], "; "));
  }
}

void ReshardBench::repeat(const BenchCase& bench, std::uint32_t repetition, BenchResult& result) {
  check_stop();
  const std::size_t hosts = bench.num_hosts();
  on_all_void(hosts,
              [&](std::size_t h) { return cluster_.host(h).call<&ReshardHost::fill>(repetition); });
  const std::vector<InterfaceBytes> before = interface_counters(hosts);
  const RunRequest request{result.strategy, ++runs_, nanoseconds_in(kStartIn), deadline_of(result)};
  const auto replies = on_all<RunReply>(
      hosts, [&](std::size_t h) { return cluster_.host(h).call<&ReshardHost::run>(request); });
  const std::vector<InterfaceBytes> after = interface_counters(hosts);
  std::vector<std::size_t> all(hosts);
  std::iota(all.begin(), all.end(), 0);
  for (const RunReply& reply : replies)
    if (!reply.failure.empty())
      throw_error(ErrorCode::kInternal, "case {}, strategy {}: {}", bench.reshard.name,
                  result.strategy, reply.failure);
  check_content(bench, result.strategy, repetition, all);
  if (repetition == 0) return;
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
  double cpu = 0;
  for (const RunReply& reply : replies) {
    if (reply.started_ns == 0) continue;
    first = std::min(first, reply.started_ns);
    last = std::max(last, reply.finished_ns);
    cpu += reply.cpu_seconds;
  }
  result.seconds.push_back(1e-9 * (last - first));
  // Updates the running means.
  const double share = 1.0 / result.seconds.size();
  result.cpu_seconds += (cpu - result.cpu_seconds) * share;
  if (cluster_.test_hosts() == nullptr) return;
  double wire = 0, busiest = 0;
  for (std::size_t h = 0; h < hosts; ++h) {
    const double sent = after[h].sent - before[h].sent,
                 received = after[h].received - before[h].received;
    wire += received;
    busiest = std::max({busiest, sent, received});
  }
  result.wire_bytes += (wire - result.wire_bytes) * share;
  result.busiest_link_bytes += (busiest - result.busiest_link_bytes) * share;
  // Headers, acknowledgements and the driver's calls add bytes. Missing bytes went through shared
  // memory.
  const double planned = result.plan_bytes;
  if (wire < 0.99 * planned || wire > 1.1 * planned + 5e5)
    throw_error(ErrorCode::kDataLoss,
                "case {}, strategy {}: the plan moves {:.0f} bytes between hosts, but the "
                "interfaces counted {:.0f}",
                bench.reshard.name, result.strategy, planned, wire);
  if (has_sums(bench) && busiest > 1.05 * result.plan_link_bytes + 5e5)
    throw_error(ErrorCode::kDataLoss,
                "case {}, strategy {}: the plan puts {:.0f} bytes on the busiest link, but its "
                "interface counted {:.0f}",
                bench.reshard.name, result.strategy, result.plan_link_bytes, busiest);
}

BenchResult ReshardBench::plan(const BenchCase& bench, const transfer::Network& network,
                               const std::string& strategy) {
  check_stop();
  const transfer::ReshardCase& reshard = bench.reshard;
  BenchResult result;
  result.case_name = reshard.name;
  result.description = reshard.description;
  result.strategy = strategy;
  result.bytes = reshard.bytes();
  result.hosts = bench.num_hosts();
  if (cluster_.test_hosts() != nullptr)
    for (const auto& host : network.hosts)
      for (const transfer::Nic& nic : host.nics)
        result.link_bytes_per_second = std::max(result.link_bytes_per_second, nic.ingress);
  const TimePoint begin = SteadyClock().now();
  const auto plan =
      plan_reshard(reshard.tasks, reshard.topology, network, transfer::parse_strategy(strategy));
  result.plan_seconds = std::chrono::duration<double>(SteadyClock().now() - begin).count();
  result.limit_seconds = plan.limit.seconds;
  result.limit_by = to_string(plan.limit);
  result.predicted_seconds = plan.predicted_seconds;
  const transfer::PlanStats stats = plan_stats(plan);
  result.plan_bytes = stats.bytes_between_hosts;
  result.minimum_bytes = stats.minimum_between_hosts;
  result.plan_link_bytes = std::max(stats.busiest_host_egress, stats.busiest_host_ingress);
  const std::string digest = plan.digest();
  const auto digests = on_all<std::string>(bench.num_hosts(), [&](std::size_t h) {
    return cluster_.host(h).call<&ReshardHost::plan>(strategy);
  });
  for (std::size_t h = 0; h < digests.size(); ++h)
    if (digests[h] != digest)
      throw_error(ErrorCode::kIncompatible,
                  "case {}, strategy {}: host {} and the driver made different plans ({} and {})",
                  reshard.name, strategy, h, digests[h].substr(0, 12), digest.substr(0, 12));
  return result;
}

std::vector<BenchResult> ReshardBench::run(const BenchCase& bench) {
  shape_links(bench);
  const transfer::Network network = measure(bench);
  load(bench, network);
  std::vector<BenchResult> results;
  for (const std::string& strategy : options_.strategies) {
    results.push_back(plan(bench, network, strategy));
    if (has_sums(bench)) break;  // all strategies plan sums alike
  }
  double soonest = std::numeric_limits<double>::infinity();
  for (const BenchResult& result : results) soonest = std::min(soonest, result.predicted_seconds);
  const auto left_out = [&](const BenchResult& result) {
    return soonest < options_.min_forecast_share * result.predicted_seconds;
  };
  const auto only_once = [&](const BenchResult& result) {
    return options_.single_run_factor > 0 &&
           result.predicted_seconds >
               std::max(1.0, options_.single_run_factor * result.limit_seconds);
  };
  for (int repetition = 0; repetition <= options_.repeat; ++repetition) {
    std::string line;
    for (BenchResult& result : results) {
      if (left_out(result) || (repetition != 1 && only_once(result))) continue;
      repeat(bench, repetition, result);
      if (repetition > 0)
        line += fmt::format("  {} {}", result.strategy, format_seconds(result.seconds.back()));
    }
    if (repetition > 0)
      options_.progress(
          fmt::format("{} {}/{}:{}", bench.reshard.name, repetition, options_.repeat, line));
  }
  return results;
}

}  // namespace weft::apps
