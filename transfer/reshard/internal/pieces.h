#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/physical_limit.h"

namespace weft::transfer::internal {

/// Part of a datum with one set of degrees: the number of copies that each of its hosts sends.
///
/// `degrees` has one value per holder, then one per receiver. They sum to the number of receivers,
/// and the holders' sum is at least 1, so they describe a forest rooted at holders.
struct Piece {
  std::uint32_t datum = 0;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> degrees;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// Choice between chains and trees. A datum with more receivers than `longest_chain` travels down
/// binary trees, in two halves with different inner hosts.
struct TreeShape {
  std::size_t longest_chain = 16;
  /// True: no chains. One host receives first and sends to all others, another host in each piece.
  bool single_relay = false;

  /// Returns the number of copies that a host sends.
  std::size_t copies_per_host(std::size_t receivers) const {
    return single_relay                ? std::max<std::size_t>(1, receivers - 1)
           : receivers > longest_chain ? 2
                                       : 1;
  }
};

/// Preference among the hosts that may send the copies of a datum.
enum class SendPreference : std::uint8_t {
  /// Hosts with time left: the one with fewest copies of the piece, then a holder, then the least
  /// loaded. Makes trees regular.
  kChains,
  kEven,  ///< Host that is then loaded least.
  /// Holders with time left, which makes trees shallow; then other hosts evenly.
  kPreferHolders,
};

/// Cuts data at `cuts` and assigns each copy to one host; places pieces with few holders first,
/// then large ones. `cuts` is per datum, ascending. A datum with one receiver stays whole. A large
/// datum with more receivers than a chain takes is halved if it has no cuts. `seconds`: time that
/// hosts have.
std::vector<Piece> whole_pieces(std::span<const HostDemand> data,
                                std::span<const std::vector<std::uint64_t>> cuts,
                                const Network& network, SendPreference preference, double seconds,
                                TreeShape shape = {});

/// Moves as little of `pieces` to other hosts as necessary for no host to send longer than
/// `seconds`. Cuts data of which hosts then send fractions. Skips cuts closer than 1 % of the
/// datum, `smallest` bytes, or 1 % of the busiest host's load.
std::vector<Piece> fitted_pieces(std::span<const HostDemand> data, const Network& network,
                                 const std::vector<Piece>& pieces, double seconds,
                                 std::uint64_t smallest, TreeShape shape = {});

/// Cuts data that one host needs from several holders like a staircase: one holder after the other
/// sends while it has time. So few holders send to more than one receiver, and few receivers get
/// data from more than two holders at a time. Other pieces stay as in `whole`.
std::vector<Piece> staircase_pieces(std::span<const HostDemand> data, const Network& network,
                                    const std::vector<Piece>& whole, double seconds,
                                    std::uint64_t smallest);

/// Returns the longest sending time of a host.
double egress_seconds(std::span<const HostDemand> data, const Network& network,
                      const std::vector<Piece>& pieces);

/// Part of a datum, from `begin` in [0, 1) to the next fraction, with integral degrees.
struct Fraction {
  double begin = 0;
  std::vector<std::uint32_t> degrees;
};
/// Splits fractional `degrees` into fractions of [0, 1) with integral degrees whose average they
/// are, by systematic sampling. Holders come first and sum to at least 1; all sum to the number of
/// receivers. Copies are sent `copies_per_host` at a time where possible.
std::vector<Fraction> split_degrees(std::span<const double> degrees, std::size_t num_holders,
                                    std::size_t copies_per_host, double tolerance);

}  // namespace weft::transfer::internal
