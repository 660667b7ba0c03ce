#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/shape.h"
#include "mesh/sharding/device_mesh.h"
#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"

namespace weft::apps {

/// A resharding as a person types it: `--shape 1024x1024x512 --dtype f32 --from 2x4:S0,R,R --to
/// 2x4:R,S01,R`.
///
/// A mesh is HOSTSxDEVICES; its axis 0 runs over the hosts and axis 1 over the devices of a host.
/// Per dimension of the tensor a spec says R (not split) or S and the axes that split it, outer
/// first: S0, S1, S01, S10.
struct ReshardRequest {
  std::string shape;
  std::string dtype = "f32";
  std::string from;
  std::string to;
  /// The host that the destination mesh begins on; the first one after the source mesh unless
  /// given. Meshes may overlap.
  std::optional<std::size_t> to_first_host;
  std::string rate = "10gbit";          ///< Of every host's link, each way.
  std::vector<std::string> link_rates;  ///< "HOST=RATE" for those that differ.
};

/// The request with everything that a planner asks for. A value.
struct ReshardProblem {
  transfer::ReshardTask task;
  transfer::Topology topology;
  transfer::Network network;
  mesh::DeviceMesh source;
  mesh::DeviceMesh destination;
};

/// What a person types after `weft plan --reshard` and `weft bench reshard` for it, but for the
/// rate of all links.
std::string command_words(const ReshardRequest& request);

/// Throws Error(kInvalidArgument) that names the option, what was found and what was expected.
ReshardProblem parse_reshard_request(const ReshardRequest& request);

}  // namespace weft::apps
