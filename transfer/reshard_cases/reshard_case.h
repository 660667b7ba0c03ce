#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"

namespace weft::transfer {

/// Resharding that others have measured, or that shows one difficulty. Shared by the planner's
/// tests, the planning benchmark and `weft bench reshard`. A value.
///
/// Hosts of the source mesh come first, then those of the destination mesh; no host is in both.
struct ReshardCase {
  std::string name;         ///< Name, such as "paper-3", "layout-5" or "device-to-4x2".
  std::string description;  ///< Description, such as "R S0 R on 2x4 to S0 R R on 2x4".
  Topology topology;
  std::vector<ReshardTask> tasks;
  /// Speeds of each host's interfaces, in units of the case's link.
  std::vector<std::vector<double>> links;

  std::uint64_t bytes() const;
  /// Returns the hosts' links if one unit carries `bytes_per_second` in each direction.
  Network network(double bytes_per_second) const;
};

struct ReshardCaseOptions {
  /// Approximate size of the tensor (gpt2: of the model) in bytes. The real size is within a few
  /// percent from 1 MiB on.
  std::uint64_t bytes = std::uint64_t{64} << 20;
  /// Total number of hosts, at least 2, shared between the meshes in the case's proportion. 0: as
  /// the case was defined. Only layouts accept another number.
  int hosts = 0;
};

/// Returns the names of all cases:
///
///   device-to-HxD   one device to a replica on each of H x D devices (Zhuang et al., MLSys 2023,
///                   section 5.1.1)
///   paper-1 .. 7, 9 the many-to-many cases of that paper, section 5.1.2 (case 8 of its artifact
///                   equals 7)
///   layout-1 .. 8   training and serving layouts: FSDP, tensor and data parallel, replicas
///   uneven          sizes without common divisors, several mesh axes on one dimension
///   slow-relay      one host to four, one of which has links at 40 % of the speed
///   slow-holder     layout-2, in which one source host has links at 40 % of the speed
///   reduce-4, -8    a sum of 4 or 8 terms, each on its own host, sent to another host
///   two-nics        one host to three, two interfaces each
///   gpt2            all weights of a GPT-2 model, from a 2x4 trainer mesh (sharded 8-way) to a 4x2
///                   inference mesh (4 replicas)
std::vector<std::string> reshard_case_names();

/// Returns a case. Throws Error(kNotFound) that lists the names if it does not exist, and
/// Error(kInvalidArgument) for invalid `options.hosts`.
ReshardCase reshard_case(std::string_view name, const ReshardCaseOptions& options = {});

}  // namespace weft::transfer
