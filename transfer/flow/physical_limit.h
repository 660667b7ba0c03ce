#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/codec/codec.h"
#include "transfer/topology/network.h"

namespace weft::transfer {

/// Bytes that some hosts hold and others need. `receivers` are the hosts that need the bytes and do
/// not hold them.
struct HostDemand {
  std::uint64_t bytes = 0;
  std::vector<HostId> holders;
  std::vector<HostId> receivers;
  friend bool operator==(const HostDemand&, const HostDemand&) = default;
};

/// Resource that bounds the time of a resharding.
enum class LimitingResource : std::uint8_t {
  kNone,     ///< None: no byte has to cross a wire.
  kIngress,  ///< Ingress links of hosts that must receive the data.
  kEgress,   ///< Egress links of the hosts that alone can send the data.
};

/// Returns "nothing", "ingress" or "egress".
std::string_view to_string(LimitingResource bound);

/// Lower bound on the time of a resharding. No plan is faster than `seconds`. In the fluid limit
/// (no latency, infinitely small chunks) a plan reaches it, as long as only a datum's holders and
/// receivers send it.
struct ReshardLimit {
  double seconds = 0;
  LimitingResource bound = LimitingResource::kNone;
  /// Hosts at the bound, ascending. kIngress: the hosts that receive longest. kEgress: the hosts
  /// that must send most.
  std::vector<HostId> bottleneck;

  friend bool operator==(const ReshardLimit&, const ReshardLimit&) = default;
  static constexpr auto fields =
      weft::fields(&ReshardLimit::seconds, &ReshardLimit::bound, &ReshardLimit::bottleneck);
};

/// Formats a limit, such as "1.12 s by ingress of hosts 2, 3".
std::string to_string(const ReshardLimit& limit);

/// Bytes of one datum that `host` sends. `lead` comes from a holder and counts towards the one copy
/// that must leave the holders. `forward` counts further copies, sent by holders or by receivers.
struct SendShare {
  HostId host;
  double lead = 0;
  double forward = 0;
  double bytes() const { return lead + forward; }
};

/// Limit, and the sends that reach it. For each datum, in the given order, lists the hosts that
/// send some of it, holders first. Leads of a datum sum to its bytes; leads and forwards sum to its
/// bytes times its receivers. Loads of hosts are as even as these sums allow.
struct LimitSolution {
  ReshardLimit limit;
  std::vector<std::vector<SendShare>> shares;
};

/// Computes the limit of moving `data` over `network`, exact to about 1e-9, and what each host
/// sends.
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
/// No plan is faster. Host h receives each byte that it needs once. If A_k lies in U, a host of U
/// sends the first copy of each byte of k. If D_k lies in U as well, hosts of U send all |D_k|
/// copies. So U sends at least the bracket.  The limit is reached. T_eg is the smallest T for which
/// the bipartite flow
///
///   lead_k:     s_k to hosts of A_k
///   forward_k:  (|D_k| - 1) s_k to hosts of A_k and D_k
///   host h:     capacity E_h T
///
/// meets all demands: by max-flow min-cut, the cut of the hosts outside U is the bracket. Such a
/// flow gives each host of datum k a number of copies d_h = share / s_k, with the holders' sum at
/// least 1 and the total |D_k|. Points of that polytope are averages of its corners, which are
/// integral. An integral d in which a holder sends is a forest rooted at holders: every receiver
/// has one parent and h has d_h children. So the datum, split in that proportion over those
/// forests, loads each host by its share. In the fluid limit all forests run at once, each at its
/// share of the rate. For one datum with one holder this is Kumar and Ross (2006): max(S /
/// E_source, S / min I, n S / sum of E).
///
/// Throws Error(kInvalidArgument) if a needed datum has no holder, or if a host appears twice in a
/// datum's lists or is not in the network.
LimitSolution solve_limit(std::span<const HostDemand> data, const Network& network);

/// Changes `shares` (as in LimitSolution, for the same data) so that no host sends longer than
/// `seconds`. Moves only the excess; shares that fit stay unchanged. Returns false if `seconds` is
/// below the limit; the shares then still have the right sums, but some host exceeds `seconds`.
bool fit_shares(std::span<const HostDemand> data, const Network& network, double seconds,
                std::vector<std::vector<SendShare>>& shares);

/// Returns the limit alone, without the shares.
ReshardLimit physical_limit(std::span<const HostDemand> data, const Network& network);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::LimitingResource> {
  static constexpr auto kValue = weft::transfer::LimitingResource::kEgress;
};
