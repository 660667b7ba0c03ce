#include "transfer/reshard/internal/pieces.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <tuple>

#include "core/base/check.h"

namespace weft::transfer::internal {
namespace {

HostId host_at(const Datum& datum, std::size_t i) {
  return i < datum.holders.size() ? datum.holders[i] : datum.wanters[i - datum.holders.size()];
}

/// Gives a piece its degrees, each to the host that then ends first, and counts them.
void place(const Datum& datum, const Network& network, SendPreference preference, double seconds,
           std::size_t turn, TreeShape shape, std::vector<double>& load, Piece& piece) {
  const std::size_t holders = datum.holders.size(), hosts = holders + datum.wanters.size();
  const auto bytes = static_cast<double>(piece.bytes);
  piece.degrees.assign(hosts, 0);
  const auto send = [&](std::size_t i, std::uint32_t copies) {
    piece.degrees[i] += copies;
    load[host_at(datum, i).value()] += copies * bytes;
  };
  // (not preferred, copies and whether it wants if those count first, when it ends, copies, turn):
  // holders before wanters, and not always the same ones first.
  using Key = std::tuple<bool, std::pair<std::uint32_t, bool>, double, std::uint32_t, std::size_t,
                         std::size_t>;
  const auto key = [&](std::size_t i, std::uint32_t copies) {
    const HostId host = host_at(datum, i);
    const std::size_t group = i < holders ? 0 : holders,
                      size = i < holders ? holders : hosts - holders;
    const double end = (load[host.value()] + copies * bytes) / network.host(host).egress();
    const bool late = end > seconds, chains = preference == SendPreference::kChains;
    const bool preferred =
        chains ? !late : preference == SendPreference::kHolders && i < holders && !late;
    const std::pair<std::uint32_t, bool> first =
        chains && !late ? std::pair(piece.degrees[i], i >= holders) : std::pair(0u, false);
    return Key(!preferred, first, end, piece.degrees[i], group + (i - group + turn) % size, i);
  };
  std::size_t leader = 0;
  for (std::size_t i = 1; i < holders; ++i) {
    if (key(i, 1) < key(leader, 1)) leader = i;
  }
  send(leader, 1);
  auto left = static_cast<std::uint32_t>(datum.wanters.size() - 1);
  const auto step = static_cast<std::uint32_t>(shape.together(datum.wanters.size()));
  std::priority_queue<Key, std::vector<Key>, std::greater<>> queue;
  for (std::size_t i = 0; i < hosts; ++i) queue.push(key(i, step));
  while (left > 0) {
    const std::size_t i = std::get<5>(queue.top());
    queue.pop();
    const std::uint32_t copies = std::min(step, left);
    send(i, copies);
    left -= copies;
    queue.push(key(i, step));
  }
}

/// Where a piece of a datum may begin.
std::uint64_t at(const Datum& datum, double fraction) {
  return static_cast<std::uint64_t>(fraction * static_cast<double>(datum.bytes)) / 64 * 64;
}

}  // namespace

std::vector<Piece> whole_pieces(std::span<const Datum> data,
                                std::span<const std::vector<std::uint64_t>> cuts,
                                const Network& network, SendPreference preference, double seconds,
                                TreeShape shape) {
  std::vector<Piece> pieces;
  for (std::uint32_t k = 0; k < data.size(); ++k) {
    const Datum& datum = data[k];
    if (datum.bytes == 0 || datum.wanters.empty()) continue;
    std::vector<std::uint64_t> ends;
    if (datum.wanters.size() > 1) ends = cuts[k];
    if (datum.wanters.size() > shape.longest_chain && ends.empty() && datum.bytes >= (1 << 20))
      ends.push_back(at(datum, 0.5));
    ends.push_back(datum.bytes);
    std::uint64_t begin = 0;
    for (const std::uint64_t end : ends) {
      if (end > begin) pieces.push_back({k, begin, end - begin, {}});
      begin = end;
    }
  }
  std::vector<std::uint32_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto weight = [&](std::uint32_t i) {
    return pieces[i].bytes * data[pieces[i].datum].wanters.size();
  };
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const std::size_t x = data[pieces[a].datum].holders.size(),
                      y = data[pieces[b].datum].holders.size();
    return x != y ? x < y : weight(a) > weight(b);
  });
  // Holders have less time for further copies by what they must send of the data still to come.
  std::vector<double> load(network.num_hosts());
  const auto reserve = [&](const Piece& piece, double sign) {
    const Datum& datum = data[piece.datum];
    const double share =
        sign * static_cast<double>(piece.bytes) / static_cast<double>(datum.holders.size());
    for (const HostId host : datum.holders) load[host.value()] += share;
  };
  for (const Piece& piece : pieces) reserve(piece, 1);
  std::vector<Piece> result;
  for (const std::uint32_t i : order) {
    reserve(pieces[i], -1);
    place(data[pieces[i].datum], network, preference, seconds, result.size(), shape, load,
          pieces[i]);
    result.push_back(std::move(pieces[i]));
  }
  return result;
}

std::vector<Piece> staircase_pieces(std::span<const Datum> data, const Network& network,
                                    const std::vector<Piece>& whole, double seconds,
                                    std::uint64_t smallest) {
  const auto is_cut = [&](const Piece& piece) {
    return data[piece.datum].wanters.size() == 1 && data[piece.datum].holders.size() > 1;
  };
  std::vector<double> room(network.num_hosts());
  for (std::size_t host = 0; host < room.size(); ++host)
    room[host] = network.hosts[host].egress() * seconds;
  std::vector<Piece> result;
  for (const Piece& piece : whole) {
    if (is_cut(piece)) continue;
    for (std::size_t i = 0; i < piece.degrees.size(); ++i)
      room[host_at(data[piece.datum], i).value()] -=
          static_cast<double>(piece.bytes) * piece.degrees[i];
    result.push_back(piece);
  }
  for (const Piece& piece : whole) {
    if (!is_cut(piece)) continue;
    const Datum& datum = data[piece.datum];
    for (std::uint64_t begin = piece.begin, end = piece.begin + piece.bytes; begin < end;) {
      // The holder that has least time left, but enough for a piece; if none has, the one that has
      // most.
      const auto least = static_cast<double>(std::min(smallest, end - begin));
      std::size_t best = 0;
      for (std::size_t i = 1; i < datum.holders.size(); ++i) {
        const double a = room[datum.holders[i].value()], b = room[datum.holders[best].value()];
        if (a >= least ? b < least || a < b : b < least && a > b) best = i;
      }
      double& left = room[datum.holders[best].value()];
      std::uint64_t bytes = end - begin;
      if (left >= least && left < static_cast<double>(bytes))
        bytes = std::max<std::uint64_t>(static_cast<std::uint64_t>(left) / 64 * 64, 64);
      if (end - begin - bytes < smallest)
        bytes =
            left >= least && static_cast<double>(end - begin) > left * 1.01 ? bytes : end - begin;
      Piece part{piece.datum, begin, bytes, std::vector<std::uint32_t>(piece.degrees.size())};
      part.degrees[best] = 1;
      left -= static_cast<double>(bytes);
      begin += bytes;
      result.push_back(std::move(part));
    }
  }
  return result;
}

double egress_seconds(std::span<const Datum> data, const Network& network,
                      const std::vector<Piece>& pieces) {
  std::vector<double> load(network.num_hosts());
  for (const Piece& piece : pieces) {
    for (std::size_t i = 0; i < piece.degrees.size(); ++i)
      load[host_at(data[piece.datum], i).value()] +=
          static_cast<double>(piece.bytes) * piece.degrees[i];
  }
  double seconds = 0;
  for (std::size_t host = 0; host < load.size(); ++host)
    seconds = std::max(seconds, load[host] / network.hosts[host].egress());
  return seconds;
}

std::vector<Fraction> sample(std::span<const double> degrees, std::size_t num_holders,
                             std::size_t together, double tolerance) {
  const std::size_t n = degrees.size() - num_holders;
  // The degrees lie end to end on a line of length n, the holders first. A piece samples it at one
  // point of every stretch: the stretch [0, 1) is the leader's, and lies within the holders.
  struct Stretch {
    double begin, length;
  };
  std::vector<Stretch> stretches = {{0, 1}};
  if (const std::size_t odd = (n - 1) % together; odd > 0)
    stretches.push_back({1, static_cast<double>(odd)});
  while (stretches.back().begin + stretches.back().length < static_cast<double>(n) - 0.5)
    stretches.push_back(
        {stretches.back().begin + stretches.back().length, static_cast<double>(together)});
  std::vector<double> ends(degrees.size());
  std::partial_sum(degrees.begin(), degrees.end(), ends.begin());
  const double scale = static_cast<double>(n) / ends.back();
  for (double& end : ends) end *= scale;
  // A boundary between two hosts inside a stretch is a cut: before it the sample falls to the one,
  // behind it to the other.
  std::vector<double> cuts = {0};
  for (std::size_t i = 0, s = 0; i + 1 < ends.size(); ++i) {
    while (s + 1 < stretches.size() && stretches[s + 1].begin <= ends[i]) ++s;
    cuts.push_back((ends[i] - stretches[s].begin) / stretches[s].length);
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<Fraction> fractions;
  for (std::size_t c = 0; c < cuts.size(); ++c) {
    const double next = c + 1 < cuts.size() ? cuts[c + 1] : 1;
    if (next - cuts[c] < 1e-12 || cuts[c] >= 1) continue;
    Fraction fraction{cuts[c], std::vector<std::uint32_t>(degrees.size())};
    const double middle = (cuts[c] + std::min(next, 1.0)) / 2;
    std::size_t i = 0;
    for (const Stretch& stretch : stretches) {
      const double point = stretch.begin + stretch.length * middle;
      while (i + 1 < ends.size() && ends[i] <= point) ++i;
      fraction.degrees[i] += static_cast<std::uint32_t>(stretch.length);
    }
    fractions.push_back(std::move(fraction));
  }
  // What is too short to be worth a flow goes to its longer neighbour.
  const auto length = [&](std::size_t i) {
    return (i + 1 < fractions.size() ? fractions[i + 1].begin : 1) - fractions[i].begin;
  };
  while (fractions.size() > 1) {
    std::size_t shortest = 0;
    for (std::size_t i = 1; i < fractions.size(); ++i) {
      if (length(i) < length(shortest)) shortest = i;
    }
    if (length(shortest) >= tolerance) break;
    if (shortest == 0) {
      fractions[1].begin = 0;
    } else if (shortest + 1 < fractions.size()) {
      fractions[shortest + 1].begin -= length(shortest) / 2;
    }
    fractions.erase(fractions.begin() + static_cast<std::ptrdiff_t>(shortest));
  }
  return fractions;
}

std::vector<Piece> fitted_pieces(std::span<const Datum> data, const Network& network,
                                 const std::vector<Piece>& pieces, double seconds,
                                 std::uint64_t smallest, TreeShape shape) {
  std::vector<std::vector<double>> degrees(data.size());
  for (const Piece& piece : pieces) {
    std::vector<double>& sum = degrees[piece.datum];
    sum.resize(piece.degrees.size());
    const double share =
        static_cast<double>(piece.bytes) / static_cast<double>(data[piece.datum].bytes);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += share * piece.degrees[i];
  }
  std::vector<std::vector<SendShare>> shares(data.size());
  double busiest = 0;
  std::vector<double> load(network.num_hosts());
  for (std::size_t k = 0; k < data.size(); ++k) {
    const auto bytes = static_cast<double>(data[k].bytes);
    double lead = 1;
    for (std::size_t i = 0; i < degrees[k].size(); ++i) {
      const double leads = i < data[k].holders.size() ? std::min(lead, degrees[k][i]) : 0;
      lead -= leads;
      shares[k].push_back({host_at(data[k], i), leads * bytes, (degrees[k][i] - leads) * bytes});
      double& sum = load[host_at(data[k], i).value()];
      sum += degrees[k][i] * bytes;
      busiest = std::max(busiest, sum);
    }
  }
  fit_shares(data, network, seconds, shares);
  std::vector<Piece> result;
  for (std::uint32_t k = 0; k < data.size(); ++k) {
    if (degrees[k].empty()) continue;
    const Datum& datum = data[k];
    std::vector<double> wanted(degrees[k].size());
    for (const SendShare& share : shares[k]) {
      std::size_t i = 0;
      while (host_at(datum, i) != share.host) ++i;
      wanted[i] = share.bytes() / static_cast<double>(datum.bytes);
    }
    bool changed = false;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      changed |= std::abs(wanted[i] - degrees[k][i]) > 1e-9;
    if (!changed) {
      for (const Piece& piece : pieces) {
        if (piece.datum == k) result.push_back(piece);
      }
      continue;
    }
    const auto bytes = static_cast<double>(datum.bytes);
    const double tolerance =
        std::max({0.01, static_cast<double>(smallest) / bytes, 0.01 * busiest / bytes});
    const std::vector<Fraction> fractions =
        sample(wanted, datum.holders.size(), shape.together(datum.wanters.size()), tolerance);
    for (std::size_t i = 0; i < fractions.size(); ++i) {
      const std::uint64_t begin = at(datum, fractions[i].begin);
      const std::uint64_t end =
          i + 1 < fractions.size() ? at(datum, fractions[i + 1].begin) : datum.bytes;
      if (end > begin) result.push_back({k, begin, end - begin, fractions[i].degrees});
    }
  }
  return result;
}

}  // namespace weft::transfer::internal
