#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/codec/codec.h"
#include "transfer/topology/network.h"

namespace weft::transfer {

/// Bytes that some hosts hold and others want. `receivers` are the hosts that want them and do not
/// hold them.
struct Datum {
  std::uint64_t bytes = 0;
  std::vector<HostId> holders;
  std::vector<HostId> receivers;
  friend bool operator==(const Datum&, const Datum&) = default;
};

/// What keeps a resharding from being faster.
enum class LimitBound : std::uint8_t {
  kNothing,  ///< No byte has to cross a wire.
  kIngress,  ///< Hosts that must take in what they want.
  kEgress,   ///< Hosts that alone can send what others want.
};

/// "nothing", "ingress", "egress".
std::string_view to_string(LimitBound bound);

/// No plan can be faster than `seconds`, and in the fluid limit (no latency, endlessly small
/// chunks) a plan reaches it, as long as only holders and receivers of a datum send it.
struct Limit {
  double seconds = 0;
  LimitBound bound = LimitBound::kNothing;
  /// Ascending. kIngress: the hosts that take longest; kEgress: the hosts that must send most.
  std::vector<HostId> bottleneck;

  friend bool operator==(const Limit&, const Limit&) = default;
  static constexpr auto fields = weft::fields(&Limit::seconds, &Limit::bound, &Limit::bottleneck);
};

/// "1.12 s by ingress of hosts 2, 3".
std::string to_string(const Limit& limit);

/// Bytes of one datum that `host` sends. `lead` is from a holder and counts towards the one copy
/// that must leave the holders; `forward` are further copies, sent by holders or by receivers.
struct SendShare {
  HostId host;
  double lead = 0;
  double forward = 0;
  double bytes() const { return lead + forward; }
};

/// A limit and the sends that reach it: for each datum, in the order given, the hosts that send
/// some of it (holders first). Leads of a datum sum to its bytes; leads and forwards to its bytes
/// times its receivers. Hosts are loaded as evenly as that allows.
struct LimitSolution {
  Limit limit;
  std::vector<std::vector<SendShare>> shares;
};

/// The limit of moving `data` over `network`, exact to about 1e-9, and who sends how much.
///
/// Let E_h and I_h be a host's egress and ingress, s_k a datum's bytes, A_k its holders, D_k its
/// receivers.
///
///   T_in = max over h of (sum of s_k with h in D_k) / I_h
///   T_eg = max over host sets U of
///          [sum of s_k with A_k in U + sum of (|D_k| - 1) s_k with A_k and D_k in U]
///          / sum of E_h in U
///   T    = max(T_in, T_eg)
///
/// No plan is faster: h takes each byte that it wants once. If A_k lies in U, the first copy of
/// each of its bytes that leaves A_k leaves U's hosts' links; if D_k does as well, all |D_k| copies
/// do; so U sends at least the bracket. The limit is reached: T_eg is the smallest T for which the
/// bipartite flow
///
///   lead_k:     s_k to hosts of A_k
///   forward_k:  (|D_k| - 1) s_k to hosts of A_k and D_k
///   host h:     capacity E_h T
///
/// meets all demands (a cut through the hosts outside U is the bracket: max-flow min-cut). Such a
/// flow gives each host of datum k a number of copies d_h = share / s_k, with the holders' sum at
/// least 1 and the total |D_k|. Points of that polytope are averages of its corners, which are
/// whole numbers; a whole-numbered d with a holder that sends is a forest rooted at holders in
/// which every receiver has one parent and h has d_h children. So the datum, split in that
/// proportion over those forests, loads each host by its share, and in the fluid limit all forests
/// run at once at their share of the rate. For one datum with one holder this is Kumar and Ross
/// (2006): max(S / E_source, S / min I, n S / sum of E).
///
/// Throws Error(kInvalidArgument) when a datum that is wanted has no holder, a host is in both
/// lists, or is not in the network.
LimitSolution solve_limit(std::span<const Datum> data, const Network& network);

/// Changes `shares` (as in LimitSolution, for the same data) so that no host sends for more than
/// `seconds`, and moves no more than that takes: what fits stays as it is. False when `seconds` is
/// below the limit; the shares then still add up, but overflow.
bool fit_shares(std::span<const Datum> data, const Network& network, double seconds,
                std::vector<std::vector<SendShare>>& shares);

/// The limit alone.
Limit physical_limit(std::span<const Datum> data, const Network& network);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::LimitBound> {
  static constexpr auto kValue = weft::transfer::LimitBound::kEgress;
};
