#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::transfer::internal {

/// Demands (bytes to be sent) that may each be shared out over some hosts: the bipartite flow
/// behind the physical limit.
///
/// `amount[i]` bytes go to host `host[i]`, for the arcs i in [begin[d], begin[d + 1]) of demand d.
class SendAssignment {
 public:
  explicit SendAssignment(std::vector<double> egress)
      : egress_(std::move(egress)), load_(egress_.size()), begin_{0} {}

  /// `hosts` may send parts of `bytes`. Returns the demand's number.
  std::size_t add(double bytes, std::span<const std::uint32_t> hosts);

  /// Replaces the shares of a demand. `amounts`: one per host of the demand, with the demand's
  /// bytes as their sum.
  void set(std::size_t demand, std::span<const double> amounts);

  /// Shares every demand out anew, one after the other, so that its hosts' loads in units of their
  /// egress are as equal as possible given the others. Never makes the largest load larger. Stops
  /// when nothing changes, or when no host takes longer than `enough`.
  void level(int rounds, double enough);

  /// Makes every host take at most `seconds`. If that is impossible returns false and leaves in
  /// `cut` the hosts that must send more than that, on which the shares in this object overflow.
  bool fit(double seconds, std::vector<bool>& cut);

  /// The longest that a host sends.
  double seconds() const;
  double seconds(std::size_t host) const { return load_[host] / egress_[host]; }
  /// Bytes that only hosts of `set` may send, over the egress of `set`: a lower bound of the time.
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
  void share_out(std::size_t demand, std::vector<std::size_t>& scratch);
  /// Levels of a breadth-first search from unmet demands; true if a host with room is reached.
  bool search(const std::vector<double>& unmet, const std::vector<double>& room, double tolerance);
  double push(std::size_t demand, double bytes, std::vector<double>& room, double tolerance);

  std::vector<double> egress_;
  std::vector<double> load_;   ///< Per host.
  std::vector<double> bytes_;  ///< Per demand.
  std::vector<std::size_t> begin_;
  std::vector<std::uint32_t> host_;
  std::vector<double> amount_;

  // Scratch of fit().
  std::vector<int> demand_level_, host_level_;
  std::vector<std::size_t> demand_next_, host_next_;
  /// Per host: (demand, arc).
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> senders_;
};

}  // namespace weft::transfer::internal
