#include "transfer/reshard/internal/pieces.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <queue>
#include <tuple>

#include "core/base/check.h"

namespace weft::transfer::internal {
namespace {

HostId host_at(const HostDemand& datum, std::size_t i) {
  return i < datum.holders.size() ? datum.holders[i] : datum.receivers[i - datum.holders.size()];
}

/// Sets a piece's degrees: gives each copy to the host that then ends first, and adds it to `load`.
void place(const HostDemand& datum, const Network& network, SendPreference preference,
           double seconds, std::size_t turn, TreeShape shape, std::vector<double>& load,
           Piece& piece) {
  const std::size_t holders = datum.holders.size(), hosts = holders + datum.receivers.size();
  const double bytes = piece.bytes;
  piece.degrees.assign(hosts, 0);
  const auto send = [&](std::size_t i, std::uint32_t copies) {
    piece.degrees[i] += copies;
    load[host_at(datum, i).value()] += copies * bytes;
  };
  // Fields: not preferred; copies and whether it is a receiver, if those count first; end time;
  // copies; turn. Holders come before receivers, and the first ones vary by `turn`.
  using Key = std::tuple<bool, std::pair<std::uint32_t, bool>, double, std::uint32_t, std::size_t,
                         std::size_t>;
  const auto key = [&](std::size_t i, std::uint32_t copies) {
    const HostId host = host_at(datum, i);
    const std::size_t group = i < holders ? 0 : holders,
                      size = i < holders ? holders : hosts - holders;
    const double end = (load[host.value()] + copies * bytes) / network.host(host).egress();
    const bool late = end > seconds, chains = preference == SendPreference::kChains;
    const bool preferred =
        chains ? !late : preference == SendPreference::kPreferHolders && i < holders && !late;
    const std::pair<std::uint32_t, bool> first =
        chains && !late ? std::pair(piece.degrees[i], i >= holders) : std::pair(0u, false);
    return Key(!preferred, first, end, piece.degrees[i], group + (i - group + turn) % size, i);
  };
  std::size_t leader = 0;
  for (std::size_t i = 1; i < holders; ++i) {
    if (key(i, 1) < key(leader, 1)) leader = i;
  }
  send(leader, 1);
  std::uint32_t left = datum.receivers.size() - 1;
  const std::uint32_t step = shape.copies_per_host(datum.receivers.size());
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

/// Returns the offset of a fraction of a datum, at a multiple of 64 bytes.
std::uint64_t at(const HostDemand& datum, double fraction) {
  return static_cast<std::uint64_t>(fraction * datum.bytes) / 64 * 64;
}

/// Returns the holder with least room that can send `least` bytes. If none can, returns the one
/// with most room. `room`: per host, the bytes that it has time to send.
std::size_t tightest_holder(const HostDemand& datum, const std::vector<double>& room,
                            double least) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < datum.holders.size(); ++i) {
    const double a = room[datum.holders[i].value()], b = room[datum.holders[best].value()];
    if (a >= least ? b < least || a < b : b < least && a > b) best = i;
  }
  return best;
}

/// Returns how many of the `left` bytes of a piece a holder with that room sends. It sends what it
/// has time for. It sends all bytes if it has no room for `smallest`, or if fewer than `smallest`
/// would remain and `left` exceeds the room by at most 1 %.
std::uint64_t bytes_of_step(std::uint64_t left, double room, std::uint64_t smallest) {
  const bool has_room = room >= std::min(smallest, left);
  std::uint64_t bytes = left;
  if (has_room && room < left)
    bytes = std::max<std::uint64_t>(static_cast<std::uint64_t>(room) / 64 * 64, 64);
  const bool too_much = has_room && left > room * 1.01;
  return left - bytes < smallest && !too_much ? left : bytes;
}

/// Cuts a piece among its holders, one after the other, and reduces their room accordingly.
void add_staircase(const HostDemand& datum, const Piece& piece, std::uint64_t smallest,
                   std::vector<double>& room, std::vector<Piece>& result) {
  for (std::uint64_t begin = piece.begin, end = piece.begin + piece.bytes; begin < end;) {
    const std::uint64_t left = end - begin;
    const std::size_t holder = tightest_holder(datum, room, std::min(smallest, left));
    double& own = room[datum.holders[holder].value()];
    const std::uint64_t bytes = bytes_of_step(left, own, smallest);
    Piece step{piece.datum, begin, bytes, std::vector<std::uint32_t>(piece.degrees.size())};
    step.degrees[holder] = 1;
    own -= bytes;
    begin += bytes;
    result.push_back(std::move(step));
  }
}

/// Interval of the line on which degrees lie end to end. Every piece samples each stratum at one
/// point. The host at that point sends `length` copies.
struct Stratum {
  double begin, length;
};

/// Returns the strata of a line of that length. [0, 1) is the first copy's, and lies within the
/// holders. The others have length `copies_per_host`, except one for the remainder.
std::vector<Stratum> strata_of(std::size_t length, std::size_t copies_per_host) {
  std::vector<Stratum> strata = {{0, 1}};
  if (const std::size_t odd = (length - 1) % copies_per_host; odd > 0)
    strata.push_back({1, static_cast<double>(odd)});
  while (strata.back().begin + strata.back().length < length - 0.5)
    strata.push_back(
        {strata.back().begin + strata.back().length, static_cast<double>(copies_per_host)});
  return strata;
}

/// Returns the points of [0, 1) at which the sample of a stratum moves to another host, ascending
/// from 0. `ends`: ends of the hosts on the line.
std::vector<double> cuts_of(const std::vector<double>& ends, const std::vector<Stratum>& strata) {
  std::vector<double> cuts = {0};
  for (std::size_t i = 0, s = 0; i + 1 < ends.size(); ++i) {
    while (s + 1 < strata.size() && strata[s + 1].begin <= ends[i]) ++s;
    cuts.push_back((ends[i] - strata[s].begin) / strata[s].length);
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

/// Returns the copies that each host sends of the piece that samples every stratum at `fraction`.
std::vector<std::uint32_t> degrees_at(double fraction, const std::vector<double>& ends,
                                      const std::vector<Stratum>& strata) {
  std::vector<std::uint32_t> degrees(ends.size());
  std::size_t i = 0;
  for (const Stratum& stratum : strata) {
    const double point = stratum.begin + stratum.length * fraction;
    while (i + 1 < ends.size() && ends[i] <= point) ++i;
    degrees[i] += static_cast<std::uint32_t>(stratum.length);
  }
  return degrees;
}

/// Merges fractions shorter than `tolerance` into their neighbours, the shortest first.
void merge_short(std::vector<Fraction>& fractions, double tolerance) {
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
    fractions.erase(fractions.begin() + shortest);
  }
}

/// Returns, per datum, the copies that each host sends of the whole datum. Empty for a datum
/// without pieces.
std::vector<std::vector<double>> mean_degrees(std::span<const HostDemand> data,
                                              const std::vector<Piece>& pieces) {
  std::vector<std::vector<double>> degrees(data.size());
  for (const Piece& piece : pieces) {
    std::vector<double>& sum = degrees[piece.datum];
    sum.resize(piece.degrees.size());
    const double share = piece.bytes / static_cast<double>(data[piece.datum].bytes);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += share * piece.degrees[i];
  }
  return degrees;
}

/// Sends of each host per datum, and the total of the busiest host in bytes.
struct SendLoads {
  std::vector<std::vector<SendShare>> shares;
  double busiest = 0;
};
SendLoads loads_of(std::span<const HostDemand> data, const Network& network,
                   const std::vector<std::vector<double>>& degrees) {
  SendLoads loads;
  loads.shares.resize(data.size());
  std::vector<double> load(network.num_hosts());
  for (std::size_t k = 0; k < data.size(); ++k) {
    const double bytes = data[k].bytes;
    double lead = 1;
    for (std::size_t i = 0; i < degrees[k].size(); ++i) {
      const double leads = i < data[k].holders.size() ? std::min(lead, degrees[k][i]) : 0;
      lead -= leads;
      loads.shares[k].push_back(
          {host_at(data[k], i), leads * bytes, (degrees[k][i] - leads) * bytes});
      double& sum = load[host_at(data[k], i).value()];
      sum += degrees[k][i] * bytes;
      loads.busiest = std::max(loads.busiest, sum);
    }
  }
  return loads;
}

/// Converts the shares of a datum into degrees, in the order of its hosts.
std::vector<double> degrees_of(const HostDemand& datum, const std::vector<SendShare>& shares) {
  std::vector<double> degrees(datum.holders.size() + datum.receivers.size());
  for (const SendShare& share : shares) {
    std::size_t i = 0;
    while (host_at(datum, i) != share.host) ++i;
    degrees[i] = share.bytes() / datum.bytes;
  }
  return degrees;
}

bool nearly_equal(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) > 1e-9) return false;
  }
  return true;
}

}  // namespace

std::vector<Piece> whole_pieces(std::span<const HostDemand> data,
                                std::span<const std::vector<std::uint64_t>> cuts,
                                const Network& network, SendPreference preference, double seconds,
                                TreeShape shape) {
  std::vector<Piece> pieces;
  for (std::uint32_t k = 0; k < data.size(); ++k) {
    const HostDemand& datum = data[k];
    if (datum.bytes == 0 || datum.receivers.empty()) continue;
    std::vector<std::uint64_t> ends;
    if (datum.receivers.size() > 1) ends = cuts[k];
    if (datum.receivers.size() > shape.longest_chain && ends.empty() && datum.bytes >= (1 << 20))
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
    return pieces[i].bytes * data[pieces[i].datum].receivers.size();
  };
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const std::size_t x = data[pieces[a].datum].holders.size(),
                      y = data[pieces[b].datum].holders.size();
    return x != y ? x < y : weight(a) > weight(b);
  });
  // Reserves the holders' time for the mandatory sends of data still to be placed.
  std::vector<double> load(network.num_hosts());
  const auto reserve = [&](const Piece& piece, double sign) {
    const HostDemand& datum = data[piece.datum];
    const double share = sign * piece.bytes / datum.holders.size();
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

std::vector<Piece> staircase_pieces(std::span<const HostDemand> data, const Network& network,
                                    const std::vector<Piece>& whole, double seconds,
                                    std::uint64_t smallest) {
  const auto is_cut = [&](const Piece& piece) {
    return data[piece.datum].receivers.size() == 1 && data[piece.datum].holders.size() > 1;
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
    if (is_cut(piece)) add_staircase(data[piece.datum], piece, smallest, room, result);
  }
  return result;
}

double egress_seconds(std::span<const HostDemand> data, const Network& network,
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

std::vector<Fraction> split_degrees(std::span<const double> degrees, std::size_t num_holders,
                                    std::size_t copies_per_host, double tolerance) {
  // Lays the degrees end to end on a line of length n, the holders first.
  const std::size_t n = degrees.size() - num_holders;
  const std::vector<Stratum> strata = strata_of(n, copies_per_host);
  std::vector<double> ends(degrees.size());
  std::partial_sum(degrees.begin(), degrees.end(), ends.begin());
  const double scale = n / ends.back();
  for (double& end : ends) end *= scale;
  const std::vector<double> cuts = cuts_of(ends, strata);
  std::vector<Fraction> fractions;
  for (std::size_t c = 0; c < cuts.size(); ++c) {
    const double next = c + 1 < cuts.size() ? cuts[c + 1] : 1;
    if (next - cuts[c] < 1e-12 || cuts[c] >= 1) continue;
    const double middle = (cuts[c] + std::min(next, 1.0)) / 2;
    fractions.push_back({cuts[c], degrees_at(middle, ends, strata)});
  }
  // Shorter fractions are not worth a flow.
  merge_short(fractions, tolerance);
  return fractions;
}

std::vector<Piece> fitted_pieces(std::span<const HostDemand> data, const Network& network,
                                 const std::vector<Piece>& pieces, double seconds,
                                 std::uint64_t smallest, TreeShape shape) {
  const std::vector<std::vector<double>> degrees = mean_degrees(data, pieces);
  SendLoads loads = loads_of(data, network, degrees);
  fit_shares(data, network, seconds, loads.shares);
  std::vector<Piece> result;
  for (std::uint32_t k = 0; k < data.size(); ++k) {
    if (degrees[k].empty()) continue;
    const HostDemand& datum = data[k];
    const std::vector<double> wanted = degrees_of(datum, loads.shares[k]);
    if (nearly_equal(wanted, degrees[k])) {
      std::ranges::copy_if(pieces, std::back_inserter(result),
                           [&](const Piece& piece) { return piece.datum == k; });
      continue;
    }
    const double bytes = datum.bytes;
    const double tolerance = std::max({0.01, smallest / bytes, 0.01 * loads.busiest / bytes});
    const std::vector<Fraction> fractions = split_degrees(
        wanted, datum.holders.size(), shape.copies_per_host(datum.receivers.size()), tolerance);
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
