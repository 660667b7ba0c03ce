#include "transfer/flow/internal/send_distribution.h"

#include <algorithm>
#include <cmath>

namespace weft::transfer::internal {

std::size_t SendDistribution::add(double bytes, std::span<const std::uint32_t> hosts) {
  bytes_.push_back(bytes);
  // Shares the bytes in proportion to egress, which is optimal if every host may send everything.
  double egress = 0;
  for (const std::uint32_t host : hosts) egress += egress_[host];
  for (const std::uint32_t host : hosts) {
    host_.push_back(host);
    amount_.push_back(bytes * egress_[host] / egress);
    load_[host] += amount_.back();
  }
  begin_.push_back(host_.size());
  return bytes_.size() - 1;
}

void SendDistribution::set(std::size_t demand, std::span<const double> amounts) {
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    const std::size_t arc = begin_[demand] + i;
    load_[host_[arc]] += amounts[i] - amount_[arc];
    amount_[arc] = amounts[i];
  }
}

void SendDistribution::compute_shares(std::size_t demand, std::vector<std::size_t>& scratch) {
  const std::size_t begin = begin_[demand], count = begin_[demand + 1] - begin;
  if (count <= 1) return;
  scratch.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    scratch[i] = begin + i;
    load_[host_[begin + i]] -= amount_[begin + i];
    amount_[begin + i] = 0;
  }
  std::sort(scratch.begin(), scratch.end(), [&](std::size_t a, std::size_t b) {
    const double x = load_[host_[a]] / egress_[host_[a]], y = load_[host_[b]] / egress_[host_[b]];
    return x != y ? x < y : host_[a] < host_[b];
  });
  // Water-filling: hosts below the level are filled up to it.
  double load = 0, egress = 0, level = 0;
  std::size_t filled = 0;
  while (filled < count) {
    const std::uint32_t host = host_[scratch[filled]];
    if (filled > 0 && load_[host] >= level * egress_[host]) break;
    load += load_[host];
    egress += egress_[host];
    level = (bytes_[demand] + load) / egress;
    ++filled;
  }
  for (std::size_t i = 0; i < filled; ++i) {
    const std::uint32_t host = host_[scratch[i]];
    const double amount = std::max(0.0, level * egress_[host] - load_[host]);
    amount_[scratch[i]] = amount;
    load_[host] += amount;
  }
}

void SendDistribution::level(int rounds, double target_seconds) {
  std::vector<std::size_t> scratch;
  for (int round = 0; round < rounds; ++round) {
    const std::vector<double> before = load_;
    for (std::size_t demand = 0; demand < num_demands(); ++demand) compute_shares(demand, scratch);
    // Recomputes the loads, because repeated additions and subtractions leave rounding errors.
    std::fill(load_.begin(), load_.end(), 0.0);
    for (std::size_t i = 0; i < host_.size(); ++i) load_[host_[i]] += amount_[i];
    if (seconds() <= target_seconds) return;
    double change = 0, total = 0;
    for (std::size_t host = 0; host < load_.size(); ++host) {
      change += std::abs(load_[host] - before[host]);
      total += load_[host];
    }
    if (change <= total * 1e-13) return;
  }
}

double SendDistribution::seconds() const {
  double longest = 0;
  for (std::size_t host = 0; host < load_.size(); ++host)
    longest = std::max(longest, seconds(host));
  return longest;
}

double SendDistribution::ratio(const std::vector<bool>& set) const {
  double bytes = 0, egress = 0;
  for (std::size_t demand = 0; demand < num_demands(); ++demand) {
    const auto senders = hosts(demand);
    if (std::all_of(senders.begin(), senders.end(), [&](std::uint32_t host) { return set[host]; }))
      bytes += bytes_[demand];
  }
  for (std::size_t host = 0; host < set.size(); ++host) egress += set[host] ? egress_[host] : 0;
  return egress > 0 ? bytes / egress : 0;
}

bool SendDistribution::search(const std::vector<double>& unmet, const std::vector<double>& room,
                              double tolerance) {
  demand_level_.assign(num_demands(), -1);
  host_level_.assign(num_hosts(), -1);
  std::vector<std::size_t> frontier;
  for (std::size_t demand = 0; demand < num_demands(); ++demand) {
    if (unmet[demand] <= tolerance) continue;
    demand_level_[demand] = 0;
    frontier.push_back(demand);
  }
  bool reached = false;
  for (int depth = 0; !frontier.empty() && !reached; ++depth) {
    std::vector<std::size_t> next;
    for (const std::size_t demand : frontier) {
      for (const std::uint32_t host : hosts(demand)) {
        if (host_level_[host] >= 0) continue;
        host_level_[host] = depth;
        if (room[host] > tolerance) reached = true;
        for (const auto& [other, arc] : senders_[host]) {
          if (demand_level_[other] >= 0 || amount_[arc] <= tolerance) continue;
          demand_level_[other] = depth + 1;
          next.push_back(other);
        }
      }
    }
    frontier = std::move(next);
  }
  return reached;
}

/// Moves up to `bytes` more of `demand` onto its hosts, along the levels of the last search.
/// Depth-first, as in Dinic's algorithm. Returns the bytes moved.
double SendDistribution::push(std::size_t demand, double bytes, std::vector<double>& room,
                              double tolerance) {
  double pushed = 0;
  const std::size_t begin = begin_[demand], end = begin_[demand + 1];
  for (std::size_t& arc = demand_next_[demand]; arc < end - begin; ++arc) {
    const std::uint32_t host = host_[begin + arc];
    if (host_level_[host] != demand_level_[demand]) continue;
    double moved = std::max(0.0, std::min(bytes - pushed, room[host]));
    room[host] -= moved;
    for (std::size_t& i = host_next_[host]; moved < bytes - pushed && i < senders_[host].size();
         ++i) {
      const auto [other, back] = senders_[host][i];
      if (demand_level_[other] != demand_level_[demand] + 1 || amount_[back] <= tolerance) continue;
      const double taken =
          push(other, std::min(bytes - pushed - moved, amount_[back]), room, tolerance);
      amount_[back] -= taken;
      moved += taken;
      if (moved >= bytes - pushed) break;  // this sender may have more to give
    }
    amount_[begin + arc] += moved;
    pushed += moved;
    if (bytes - pushed <= tolerance) break;
  }
  return pushed;
}

bool SendDistribution::fit(double seconds, std::vector<bool>& cut) {
  double total = 0;
  for (const double bytes : bytes_) total += bytes;
  const double tolerance = total * 1e-14;
  // Takes the excess from overloaded hosts; the search below redistributes it.
  std::vector<double> room(num_hosts()), unmet(num_demands());
  for (std::size_t host = 0; host < num_hosts(); ++host)
    room[host] = egress_[host] * seconds - load_[host];
  for (std::size_t demand = 0; demand < num_demands(); ++demand) {
    for (std::size_t i = begin_[demand]; i < begin_[demand + 1]; ++i) {
      const double excess = std::clamp(-room[host_[i]], 0.0, amount_[i]);
      amount_[i] -= excess;
      room[host_[i]] += excess;
      unmet[demand] += excess;
    }
  }
  senders_.assign(num_hosts(), {});
  for (std::size_t demand = 0; demand < num_demands(); ++demand) {
    for (std::size_t i = begin_[demand]; i < begin_[demand + 1]; ++i)
      senders_[host_[i]].push_back({demand, i});
  }
  while (search(unmet, room, tolerance)) {
    demand_next_.assign(num_demands(), 0);
    host_next_.assign(num_hosts(), 0);
    double progress = 0;
    for (std::size_t demand = 0; demand < num_demands(); ++demand) {
      if (unmet[demand] <= tolerance) continue;
      const double pushed = push(demand, unmet[demand], room, tolerance);
      unmet[demand] -= pushed;
      progress += pushed;
    }
    if (progress <= 0) break;
  }
  cut.assign(num_hosts(), false);
  double missing = 0;
  for (std::size_t demand = 0; demand < num_demands(); ++demand) {
    missing += unmet[demand];
    if (unmet[demand] > 0) amount_[begin_[demand]] += unmet[demand];
  }
  for (std::size_t host = 0; host < num_hosts(); ++host) cut[host] = host_level_[host] >= 0;
  std::fill(load_.begin(), load_.end(), 0.0);
  for (std::size_t i = 0; i < host_.size(); ++i) load_[host_[i]] += amount_[i];
  return missing <= total * 1e-11;
}

}  // namespace weft::transfer::internal
