#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"

namespace weft::transfer {

/// A resharding that others have measured, or that shows one difficulty: what the planner's tests,
/// the planning benchmark and `weft bench reshard` have in common. A value.
///
/// Hosts of the source mesh come first, then those of the destination mesh; no host is in both.
struct ReshardCase {
  std::string name;         ///< "paper-3", "layout-5", "device-to-4x2", ...
  std::string description;  ///< "R S0 R on 2x4 to S0 R R on 2x4".
  Topology topology;
  std::vector<ReshardTask> tasks;
  /// Per host the speeds of its interfaces, in units of the case's link.
  std::vector<std::vector<double>> links;

  std::uint64_t bytes() const;
  /// The hosts' links when a whole one carries `bytes_per_second` each way.
  Network network(double bytes_per_second) const;
};

struct ReshardCaseOptions {
  /// About how large the tensor (gpt2: the model) should be. The real size is within a few percent
  /// from 1 MiB on.
  std::uint64_t bytes = std::uint64_t{64} << 20;
  /// Total number of hosts, at least 2, shared between the meshes in the case's own proportion. 0:
  /// as the case was defined. Only layouts can have another number.
  int hosts = 0;
};

/// device-to-HxD   one device to a replica on each of H x D devices (reference: Zhuang et al.,
///                 MLSys 2023, section 5.1.1)
/// paper-1 .. 7, 9 the many-to-many cases of the same paper, section 5.1.2 (its artifact's case 8
///                 equals 7)
/// layout-1 .. 8   training and serving layouts: FSDP, tensor and data parallel, replicas
/// uneven          sizes that nothing divides, several mesh axes on one dimension
/// slow-relay      one host to four, one of which has links of 40 %
/// slow-holder     layout-2 where one source host has links of 40 %
/// reduce-4, -8    a term on each of so many hosts, their sum to one more
/// two-nics        one host to three, two interfaces each
/// gpt2            all weights of a GPT-2 model from a 2x4 trainer mesh (sharded 8-way) to a 4x2
///                 inference mesh (4 replicas)
std::vector<std::string> reshard_case_names();

/// Throws Error(kNotFound) that lists the names.
ReshardCase reshard_case(std::string_view name, const ReshardCaseOptions& options = {});

}  // namespace weft::transfer
