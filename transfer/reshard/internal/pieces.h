#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/physical_limit.h"

namespace weft::transfer::internal {

/// A part of a datum that travels one way: how many copies each of its hosts sends.
///
/// `degrees`: one per holder, then one per receiver. Their sum is the number of receivers and the
/// holders' sum at least 1, so that they are those of a forest rooted at holders.
struct Piece {
  std::uint32_t datum = 0;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> degrees;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// When a datum travels down trees of two children, in two halves whose inner hosts are different
/// ones, instead of a chain: with more receivers than this.
struct TreeShape {
  std::size_t longest_chain = 16;
  /// Never a chain: one host sends to all others what it was sent first, another one in each piece.
  bool fans = false;

  /// How many copies a host sends.
  std::size_t together(std::size_t receivers) const {
    return fans ? std::max<std::size_t>(1, receivers - 1) : receivers > longest_chain ? 2 : 1;
  }
};

/// Who sends the copies of a datum, of hosts that may.
enum class SendPreference : std::uint8_t {
  /// Hosts that send none yet, so that trees are regular, as long as they have time; of those
  /// holders, then the one loaded least.
  kChains,
  kEven,  ///< The host that is then loaded least.
  /// Holders as long as they have time, which makes trees shallow; then the others evenly.
  kHolders,
};

/// Data cut no further than at `cuts` (per datum, ascending; a datum with one receiver stays whole,
/// one with many is cut in two where it has no cuts), large pieces first, each copy given to one
/// host. `seconds`: the time that hosts have.
std::vector<Piece> whole_pieces(std::span<const Datum> data,
                                std::span<const std::vector<std::uint64_t>> cuts,
                                const Network& network, SendPreference preference, double seconds,
                                TreeShape shape = {});

/// Moves as little of `pieces` to other hosts as it takes for no host to send longer than
/// `seconds`, and cuts data where hosts then send a fraction of them. Cuts closer than 1 % of the
/// datum, `smallest` bytes or 1 % of the busiest host's load are not made.
std::vector<Piece> fitted_pieces(std::span<const Datum> data, const Network& network,
                                 const std::vector<Piece>& pieces, double seconds,
                                 std::uint64_t smallest, TreeShape shape = {});

/// Like `whole`, but what one host wants of several holders' is cut as a staircase: one holder
/// after the other sends for as long as it has time, so that few send to more than one receiver,
/// and few receive from more than two at a time.
std::vector<Piece> staircase_pieces(std::span<const Datum> data, const Network& network,
                                    const std::vector<Piece>& whole, double seconds,
                                    std::uint64_t smallest);

/// The longest that a host sends.
double egress_seconds(std::span<const Datum> data, const Network& network,
                      const std::vector<Piece>& pieces);

/// Averages of whole-numbered degrees: `degrees` (holders first, the holders' sum at least 1, all
/// of them summing to the number of receivers) as pieces of [0, 1), by systematic sampling. As many
/// copies as possible are sent by `together` at a time.
struct Fraction {
  double begin = 0;
  std::vector<std::uint32_t> degrees;
};
std::vector<Fraction> sample(std::span<const double> degrees, std::size_t num_holders,
                             std::size_t together, double tolerance);

}  // namespace weft::transfer::internal
