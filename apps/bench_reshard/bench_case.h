#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench_reshard/bench_options.h"
#include "transfer/reshard_cases/reshard_case.h"

namespace weft::apps {

/// One row of the benchmark: a resharding on links of some speed.
struct BenchCase {
  transfer::ReshardCase reshard;
  std::uint64_t rate_bits = 0;  ///< Of a whole link, each way.
  bool killed_relay = false;    ///< A host dies in the middle.

  std::size_t num_hosts() const { return reshard.topology.num_hosts(); }
  std::size_t num_nics() const;
  /// What an interface of a host is limited to, each way, in bits per second.
  std::uint64_t link_bits(std::size_t host, std::size_t nic) const;
  /// What limits and plans take until measured: payload is 1448 bytes of each 1514.
  double nominal_goodput() const { return static_cast<double>(rate_bits) / 8 * 1448 / 1514; }
};

/// The cases asked for, or all that fit the hosts; then the user's own task ("task") and random
/// ones ("random-0", ...). Throws Error(kInvalidArgument) naming what there is for one that does
/// not exist, and for one that needs more hosts, devices or memory than there can be.
std::vector<BenchCase> bench_cases(const BenchOptions& options);
/// The strategies asked for (quick: weft, broadcast, send_recv; those of them that there are), in
/// the order of reporting.
std::vector<std::string> bench_strategies(const BenchOptions& options);

/// Links that two processor cores keep busy with time to spare: a total of 2 Gbit/s over all hosts,
/// in whole Mbit/s. `links` is the number of hosts, if all links are alike.
std::uint64_t rate_for(double links);

}  // namespace weft::apps
