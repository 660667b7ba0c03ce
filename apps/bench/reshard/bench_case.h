#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench/reshard/bench_options.h"
#include "transfer/reshard_cases/reshard_case.h"

namespace weft::apps {

/// Row of the benchmark: a resharding over links of some speed.
struct BenchCase {
  transfer::ReshardCase reshard;
  std::uint64_t rate_bits = 0;  ///< Bits per second of a full link, each way.
  bool killed_relay = false;    ///< True if a host is killed in the middle.

  std::size_t num_hosts() const { return reshard.topology.num_hosts(); }
  std::size_t num_nics() const;
  /// Returns the limit of a host's interface, each way, in bits per second.
  std::uint64_t link_bits(std::size_t host, std::size_t nic) const;
  /// Returns the assumed goodput before a measurement, in bytes per second: 1448 of each 1514 bytes
  /// are payload.
  double nominal_goodput() const { return static_cast<double>(rate_bits) / 8 * 1448 / 1514; }
};

/// Returns the requested cases, or all that fit the number of hosts; then the user's own task
/// ("task") and random tasks ("random-0", ...). Throws Error(kInvalidArgument) for an unknown case,
/// listing the known ones, and for a case that needs too many hosts, devices or bytes.
std::vector<BenchCase> bench_cases(const ReshardBenchOptions& options);
/// Returns the strategies to run in the order of reporting. With `quick`, the default is weft,
/// broadcast and send_recv, as far as they exist.
std::vector<std::string> bench_strategies(const ReshardBenchOptions& options);

/// Returns a link rate in bits per second, whole Mbit/s, at which two processor cores can keep all
/// links busy: about 2 Gbit/s over all hosts. `links` is the number of hosts if all links are
/// alike.
std::uint64_t rate_for(double links);

}  // namespace weft::apps
