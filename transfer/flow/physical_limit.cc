#include "transfer/flow/physical_limit.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "transfer/flow/internal/send_distribution.h"

namespace weft::transfer {
namespace {

constexpr double kTolerance = 1e-12;  // relative error

void check_datum(std::size_t k, const HostDemand& datum, const Network& network,
                 std::vector<std::size_t>& last_seen) {
  if (datum.holders.empty())
    throw_error(ErrorCode::kInvalidArgument, "datum {} of {} has receivers, but no host holds it",
                k, format_bytes(datum.bytes));
  for (const std::vector<HostId>* hosts : {&datum.holders, &datum.receivers}) {
    for (const HostId host : *hosts) {
      network.host(host);
      if (last_seen[host.value()] == k + 1)
        throw_error(ErrorCode::kInvalidArgument,
                    "datum {} names host {} twice; a host may be a holder or a receiver", k, host);
      last_seen[host.value()] = k + 1;
    }
  }
}

ReshardLimit ingress_limit(std::span<const HostDemand> data, const Network& network) {
  std::vector<double> wanted(network.num_hosts());
  for (const HostDemand& datum : data) {
    for (const HostId host : datum.receivers) wanted[host.value()] += datum.bytes;
  }
  ReshardLimit limit;
  for (std::size_t h = 0; h < wanted.size(); ++h) {
    wanted[h] /= network.hosts[h].ingress();
    limit.seconds = std::max(limit.seconds, wanted[h]);
  }
  if (limit.seconds <= 0) return limit;
  limit.bound = LimitingResource::kIngress;
  for (std::size_t h = 0; h < wanted.size(); ++h) {
    if (wanted[h] >= limit.seconds * (1 - 1e-9)) limit.bottleneck.push_back(HostId(h));
  }
  return limit;
}

/// Raises `limit` to the egress bound and leaves shares that meet it in `sends`.
///
/// Levelling usually gives shares that reach a lower bound: the ingress bound, or the ratio of the
/// busiest hosts, which is itself a lower bound. Otherwise iterates as Newton's method: tries T,
/// and if T is too small, the minimum cut gives a set of hosts whose ratio is the next T.
void raise_to_egress(internal::SendDistribution& sends, ReshardLimit& limit) {
  std::vector<bool> set(sends.num_hosts());
  const auto raise = [&](const std::vector<bool>& hosts) {
    const double ratio = sends.ratio(hosts);
    if (ratio <= limit.seconds * (1 + kTolerance)) return false;
    limit = {ratio, LimitingResource::kEgress, {}};
    for (std::size_t h = 0; h < hosts.size(); ++h) {
      if (hosts[h]) limit.bottleneck.push_back(HostId(h));
    }
    return true;
  };
  sends.level(12, limit.seconds);
  for (const double near : {1e-9, 1e-3}) {
    if (sends.seconds() <= limit.seconds * (1 + kTolerance)) return;
    const double longest = sends.seconds();
    for (std::size_t h = 0; h < set.size(); ++h) set[h] = sends.seconds(h) >= longest * (1 - near);
    raise(set);
  }
  while (sends.seconds() > limit.seconds * (1 + 1e-11)) {
    if (sends.fit(limit.seconds, set)) break;
    // The cut's ratio exceeds the tried limit, except for rounding. If it does not, this is the
    // limit.
    if (!raise(set)) break;
  }
  sends.level(4, 0);
}

/// Bipartite flow of some data. Each datum has two demands, or one if it has a single receiver.
struct Sends {
  struct Demands {
    std::size_t datum, lead, forward;
  };

  Sends(std::span<const HostDemand> data, const Network& network) : assignment(egress_of(network)) {
    std::vector<std::uint32_t> hosts;
    for (std::size_t k = 0; k < data.size(); ++k) {
      if (data[k].bytes == 0 || data[k].receivers.empty()) continue;
      const double bytes = data[k].bytes;
      hosts.clear();
      for (const HostId host : data[k].holders) hosts.push_back(host.value());
      const std::size_t lead = assignment.add(bytes, hosts);
      std::size_t forward = lead;
      if (data[k].receivers.size() > 1) {
        for (const HostId host : data[k].receivers) hosts.push_back(host.value());
        forward = assignment.add(bytes * (data[k].receivers.size() - 1), hosts);
      }
      demands.push_back({k, lead, forward});
    }
  }

  std::vector<std::vector<SendShare>> shares(std::size_t num_data) const {
    std::vector<std::vector<SendShare>> result(num_data);
    for (const Demands& d : demands) {
      const auto lead = assignment.amounts(d.lead), forward = assignment.amounts(d.forward);
      const auto senders = assignment.hosts(d.forward);
      for (std::size_t i = 0; i < senders.size(); ++i) {
        const SendShare share{HostId(senders[i]), i < lead.size() ? lead[i] : 0,
                              d.forward == d.lead ? 0 : forward[i]};
        if (share.bytes() > 0) result[d.datum].push_back(share);
      }
    }
    return result;
  }

  void set(const std::vector<std::vector<SendShare>>& shares) {
    for (const Demands& d : demands) {
      const auto senders = assignment.hosts(d.forward);
      std::vector<double> lead(assignment.hosts(d.lead).size()), forward(senders.size());
      for (const SendShare& share : shares[d.datum]) {
        const std::size_t i =
            std::find(senders.begin(), senders.end(), share.host.value()) - senders.begin();
        if (i < lead.size()) lead[i] += share.lead;
        if (i < forward.size()) forward[i] += share.forward;
      }
      assignment.set(d.lead, lead);
      if (d.forward != d.lead) assignment.set(d.forward, forward);
    }
  }

  static std::vector<double> egress_of(const Network& network) {
    std::vector<double> egress;
    for (const Network::HostLinks& host : network.hosts) egress.push_back(host.egress());
    return egress;
  }

  internal::SendDistribution assignment;
  std::vector<Demands> demands;
};

}  // namespace

std::string_view to_string(LimitingResource bound) {
  switch (bound) {
    case LimitingResource::kNone: return "nothing";
    case LimitingResource::kIngress: return "ingress";
    case LimitingResource::kEgress: return "egress";
  }
  WEFT_CHECK(false, "bound {}", static_cast<int>(bound));
}

std::string to_string(const ReshardLimit& limit) {
  if (limit.bound == LimitingResource::kNone) return "nothing crosses a wire";
  std::string hosts;
  for (std::size_t i = 0; i < limit.bottleneck.size() && i < 8; ++i)
    hosts += fmt::format("{}{}", i == 0 ? " " : ", ", limit.bottleneck[i]);
  if (limit.bottleneck.size() > 8)
    hosts += fmt::format(" and {} more", limit.bottleneck.size() - 8);
  return fmt::format("{} by {} of host{}{}", format_seconds(limit.seconds), to_string(limit.bound),
                     limit.bottleneck.size() == 1 ? "" : "s", hosts);
}

LimitSolution solve_limit(std::span<const HostDemand> data, const Network& network) {
  network.validate();
  std::vector<std::size_t> last_seen(network.num_hosts());
  for (std::size_t k = 0; k < data.size(); ++k) {
    if (data[k].bytes > 0 && !data[k].receivers.empty())
      check_datum(k, data[k], network, last_seen);
  }
  LimitSolution solution{ingress_limit(data, network), {}};
  Sends sends(data, network);
  raise_to_egress(sends.assignment, solution.limit);
  solution.shares = sends.shares(data.size());
  return solution;
}

bool fit_shares(std::span<const HostDemand> data, const Network& network, double seconds,
                std::vector<std::vector<SendShare>>& shares) {
  Sends sends(data, network);
  sends.set(shares);
  std::vector<bool> cut;
  const bool fits = sends.assignment.fit(seconds, cut);
  shares = sends.shares(data.size());
  return fits;
}

ReshardLimit physical_limit(std::span<const HostDemand> data, const Network& network) {
  return solve_limit(data, network).limit;
}

}  // namespace weft::transfer
