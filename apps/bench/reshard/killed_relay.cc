// Runs a resharding in which a host is killed midway and the others finish.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "apps/bench/reshard/reshard_bench.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "transfer/reshard/plan_stats.h"

namespace weft::apps {
namespace {

/// Returns a host that relays data of another host to a third one.
std::optional<std::size_t> relay_of(const transfer::ReshardPlan& plan) {
  for (const transfer::Flow& flow : plan.flows) {
    const transfer::HostId root = plan.topology.host_of(flow.root);
    for (const transfer::FlowEdge& edge : flow.edges) {
      const transfer::HostId from = plan.topology.host_of(edge.parent);
      if (from != root && from != plan.topology.host_of(edge.child)) return from.value();
    }
  }
  return std::nullopt;
}

/// Returns a deadline far beyond the expected time of a run and its repair.
double deadline_with_death(const BenchResult& planned) { return 30 + 20 * planned.limit_seconds; }

}  // namespace

ReshardBench::KilledRelay ReshardBench::choose_relay(const BenchCase& bench,
                                                     const transfer::Network& network,
                                                     const std::string& strategy) const {
  const transfer::ReshardCase& reshard = bench.reshard;
  const auto host = relay_of(
      plan_reshard(reshard.tasks, reshard.topology, network, transfer::parse_strategy(strategy)));
  if (!host)
    throw_error(ErrorCode::kInvalidArgument,
                "case {}: strategy {} uses no relay host; choose another case or strategy",
                reshard.name, strategy);
  KilledRelay relay;
  relay.host = *host;
  for (std::uint32_t d = 0; d < reshard.topology.num_devices(); ++d)
    if (reshard.topology.host_of(transfer::DeviceId(d)).value() == relay.host)
      relay.devices.emplace_back(d);
  for (std::size_t h = 0; h < bench.num_hosts(); ++h)
    if (h != relay.host) relay.survivors.push_back(h);
  return relay;
}

RepairRequest ReshardBench::run_until_death(const BenchCase& bench, const BenchResult& planned,
                                            const KilledRelay& relay, std::int64_t start_ns) {
  RunRequest request{planned.strategy, ++runs_, start_ns, deadline_with_death(planned), 0};
  std::vector<actors::Future<RunReply>> futures;
  for (std::size_t h = 0; h < bench.num_hosts(); ++h) {
    const bool dies = h == relay.host;
    request.kill_at_ns =
        dies ? start_ns + static_cast<std::int64_t>(5e8 * planned.predicted_seconds) : 0;
    futures.push_back(cluster_.host(h).call<&ReshardHost::run>(request));
  }
  RepairRequest repair{planned.strategy, {}, relay.devices};
  for (std::size_t h = 0; h < bench.num_hosts(); ++h) {
    try {
      const RunReply reply = futures[h].get();
      repair.landed.insert(repair.landed.end(), reply.landed.begin(), reply.landed.end());
      if (h == relay.host)
        throw_error(ErrorCode::kInternal, "host {} was to be killed but still answered", h);
    } catch (const Error& error) {
      if (h != relay.host || error.code() == ErrorCode::kInternal) throw;
    }
  }
  return repair;
}

std::int64_t ReshardBench::run_repair(const BenchCase& bench, const RepairRequest& repair,
                                      const transfer::ReshardPlan& plan, const KilledRelay& relay,
                                      double deadline_seconds) {
  std::vector<actors::Future<std::string>> digests;
  for (const std::size_t h : relay.survivors)
    digests.push_back(cluster_.host(h).call<&ReshardHost::plan_repair>(repair));
  for (auto& digest : digests)
    if (digest.get() != plan.digest())
      throw_error(ErrorCode::kIncompatible, "case {}: the survivors do not agree on the repair",
                  bench.reshard.name);
  const RunRequest request{kRepair, ++runs_, nanoseconds_in(Nanoseconds(0)), deadline_seconds, 0};
  std::vector<actors::Future<RunReply>> futures;
  for (const std::size_t h : relay.survivors)
    futures.push_back(cluster_.host(h).call<&ReshardHost::run>(request));
  std::int64_t last = 0;
  for (auto& future : futures) {
    const RunReply reply = future.get();
    if (!reply.failure.empty())
      throw_error(ErrorCode::kInternal, "case {}: the repair failed: {}", bench.reshard.name,
                  reply.failure);
    last = std::max(last, reply.finished_ns);
  }
  return last;
}

BenchResult ReshardBench::run_with_death(const BenchCase& bench, const std::string& strategy) {
  shape_links(bench);
  const transfer::Network network = measure(bench);
  const KilledRelay relay = choose_relay(bench, network, strategy);
  std::optional<BenchResult> result;
  std::uint64_t resent = 0;
  for (int repetition = 1; repetition <= options_.repeat; ++repetition) {
    load(bench, network);
    BenchResult planned = plan(bench, network, strategy);
    if (!result) result = planned;
    repeat(bench, 0, planned);  // sets up the connections
    const std::uint32_t pattern = repetition;
    for (std::size_t h = 0; h < bench.num_hosts(); ++h)
      cluster_.host(h).call<&ReshardHost::fill>(pattern).get();

    const std::int64_t start = nanoseconds_in(kStartIn);
    const RepairRequest repair = run_until_death(bench, planned, relay, start);
    const transfer::ReshardPlan second = plan_repair_of(task_of(bench, network, 0), repair);
    const std::uint64_t moved = plan_stats(second).bytes_between_hosts;
    resent = std::max(resent, moved);
    const std::int64_t last =
        run_repair(bench, repair, second, relay, deadline_with_death(planned));
    check_content(bench, strategy, pattern, relay.survivors);
    result->seconds.push_back(1e-9 * (last - start));
    options_.progress(fmt::format(
        "{} {}/{}: host {} killed half-way, done after {}, the repair moved {} between hosts",
        bench.reshard.name, repetition, options_.repeat, relay.host,
        format_seconds(result->seconds.back()), format_bytes(moved)));
    cluster_.restart(relay.host);
  }
  result->description += fmt::format(", host {} killed half-way; at most {} sent anew", relay.host,
                                     format_bytes(resent));
  return *result;
}

}  // namespace weft::apps
