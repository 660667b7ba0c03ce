// A host dies in the middle of a resharding; the others finish it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "apps/bench_reshard/reshard_bench.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "transfer/reshard/plan_stats.h"

namespace weft::apps {
namespace {

/// A host that has no source data and passes some on to another host.
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

}  // namespace

BenchResult ReshardBench::run_with_death(const BenchCase& bench, const std::string& strategy) {
  shape_links(bench);
  const transfer::Network network = measure(bench);
  const transfer::ReshardCase& reshard = bench.reshard;
  const auto relay = relay_of(
      plan_reshard(reshard.tasks, reshard.topology, network, transfer::parse_strategy(strategy)));
  if (!relay)
    throw_error(ErrorCode::kInvalidArgument, "case {}: under {} no host passes on what others need",
                reshard.name, strategy);
  std::vector<transfer::DeviceId> dead;
  for (std::uint32_t d = 0; d < reshard.topology.num_devices(); ++d)
    if (reshard.topology.host_of(transfer::DeviceId(d)).value() == *relay) dead.emplace_back(d);
  std::vector<std::size_t> survivors;
  for (std::size_t h = 0; h < bench.num_hosts(); ++h)
    if (h != *relay) survivors.push_back(h);

  std::optional<BenchResult> result;
  std::uint64_t resent = 0;
  for (int repetition = 1; repetition <= options_.repeat; ++repetition) {
    load(bench, network);
    BenchResult planned = plan(bench, network, strategy);
    if (!result) result = planned;
    repeat(bench, 0, planned);  // connections are there, as they would be
    const auto pattern = static_cast<std::uint32_t>(repetition);
    for (std::size_t h = 0; h < bench.num_hosts(); ++h)
      cluster_.host(h).call<&ReshardHost::fill>(pattern).get();

    const std::int64_t start = nanoseconds_in(kStartIn);
    const double deadline = 30 + 20 * planned.limit_seconds;
    std::vector<actors::Future<RunReply>> futures;
    for (std::size_t h = 0; h < bench.num_hosts(); ++h) {
      RunRequest request{strategy, ++runs_, start, deadline, 0};
      request.run = runs_ - h;  // the same for all
      if (h == *relay)
        request.die_ns = start + static_cast<std::int64_t>(5e8 * planned.predicted_seconds);
      futures.push_back(cluster_.host(h).call<&ReshardHost::run>(request));
    }
    RepairRequest repair{strategy, {}, dead};
    for (std::size_t h = 0; h < bench.num_hosts(); ++h) {
      try {
        const RunReply reply = futures[h].get();
        repair.landed.insert(repair.landed.end(), reply.landed.begin(), reply.landed.end());
        if (h == *relay) throw_error(ErrorCode::kInternal, "host {} was to die and has not", h);
      } catch (const Error& error) {
        if (h != *relay || error.code() == ErrorCode::kInternal) throw;
      }
    }

    const transfer::ReshardPlan second = plan_repair_of(task_of(bench, network, 0), repair);
    resent = std::max(resent, plan_stats(second).bytes_between_hosts);
    std::vector<actors::Future<std::string>> digests;
    for (const std::size_t h : survivors)
      digests.push_back(cluster_.host(h).call<&ReshardHost::plan_repair>(repair));
    for (auto& digest : digests)
      if (digest.get() != second.digest())
        throw_error(ErrorCode::kIncompatible, "case {}: the survivors do not agree on the repair",
                    reshard.name);
    const RunRequest again{kRepair, ++runs_, nanoseconds_in(Nanoseconds(0)), deadline, 0};
    futures.clear();
    for (const std::size_t h : survivors)
      futures.push_back(cluster_.host(h).call<&ReshardHost::run>(again));
    std::int64_t last = 0;
    for (auto& future : futures) {
      const RunReply reply = future.get();
      if (!reply.failure.empty())
        throw_error(ErrorCode::kInternal, "case {}: the repair failed: {}", reshard.name,
                    reply.failure);
      last = std::max(last, reply.finished_ns);
    }
    check_content(bench, strategy, pattern, survivors);
    result->seconds.push_back(1e-9 * static_cast<double>(last - start));
    options_.progress(fmt::format(
        "{} {}/{}: host {} killed half-way, done after {}, the repair moved {} between hosts",
        reshard.name, repetition, options_.repeat, *relay, format_seconds(result->seconds.back()),
        format_bytes(plan_stats(second).bytes_between_hosts)));
    cluster_.restart(*relay);
  }
  result->description +=
      fmt::format(", host {} killed half-way; at most {} sent anew", *relay, format_bytes(resent));
  return *result;
}

}  // namespace weft::apps
