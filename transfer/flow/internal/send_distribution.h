#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::transfer::internal {

/// Assignment of demands (bytes to send) to hosts, each demand shared by some hosts. It is the
/// bipartite flow behind the physical limit.
///
/// `amount[i]` bytes go to host `host[i]`, for the arcs i in [begin[d], begin[d + 1]) of demand d.
class SendDistribution {
 public:
  explicit SendDistribution(std::vector<double> egress)
      : egress_(std::move(egress)), load_(egress_.size()), begin_{0} {}

  /// Adds a demand of `bytes` that `hosts` may share. Returns the demand's index.
  std::size_t add(double bytes, std::span<const std::uint32_t> hosts);

  /// Replaces the shares of a demand. `amounts` has one value per host of the demand; they must sum
  /// to the demand's bytes.
  void set(std::size_t demand, std::span<const double> amounts);

  /// Redistributes every demand in turn, so that its hosts' loads in units of their egress are as
  /// equal as possible, given the other demands. Never increases the largest load. Stops after
  /// `rounds` rounds, when nothing changes, or when no host takes longer than `target_seconds`.
  void level(int rounds, double target_seconds);

  /// Changes the shares so that every host takes at most `seconds`. If that is impossible, returns
  /// false and sets `cut` to the hosts that must send longer; shares of these hosts then exceed
  /// `seconds`.
  bool fit(double seconds, std::vector<bool>& cut);

  /// Returns the longest sending time of a host.
  double seconds() const;
  double seconds(std::size_t host) const { return load_[host] / egress_[host]; }
  /// Returns the bytes that only hosts of `set` may send, divided by the egress of `set`. This is a
  /// lower bound on the time.
  double ratio(const std::vector<bool>& set) const;

  std::size_t num_hosts() const { return egress_.size(); }
  std::span<const double> amounts(std::size_t demand) const {
    return std::span(amount_).subspan(begin_[demand], begin_[demand + 1] - begin_[demand]);
  }
  std::span<const std::uint32_t> hosts(std::size_t demand) const {
    return std::span(host_).subspan(begin_[demand], begin_[demand + 1] - begin_[demand]);
  }

 private:
  std::size_t num_demands() const { return bytes_.size(); }
  void compute_shares(std::size_t demand, std::vector<std::size_t>& scratch);
  /// Assigns the levels of a breadth-first search from unmet demands. Returns true if it reaches a
  /// host with room.
  bool search(const std::vector<double>& unmet, const std::vector<double>& room, double tolerance);
  double push(std::size_t demand, double bytes, std::vector<double>& room, double tolerance);

  std::vector<double> egress_;
  std::vector<double> load_;   ///< Bytes that each host sends.
  std::vector<double> bytes_;  ///< Bytes of each demand.
  std::vector<std::size_t> begin_;
  std::vector<std::uint32_t> host_;
  std::vector<double> amount_;

  // Scratch of fit().
  std::vector<int> demand_level_, host_level_;
  std::vector<std::size_t> demand_next_, host_next_;
  /// Arcs of each host, as (demand, arc).
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> senders_;
};

}  // namespace weft::transfer::internal
