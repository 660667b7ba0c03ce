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

/// Resharding as typed by a user: `--shape 1024x1024x512 --dtype f32 --from 2x4:S0,R,R --to
/// 2x4:R,S01,R`.
///
/// A mesh is HOSTSxDEVICES. Axis 0 is the hosts, axis 1 the devices of a host. A spec has for each
/// dimension of the tensor R (not split) or S and the axes that split it, outer first: S0, S1, S01,
/// S10.
struct ReshardRequest {
  std::string shape;
  std::string dtype = "f32";
  std::string from;
  std::string to;
  /// First host of the destination mesh; default: the first one after the source mesh. Meshes may
  /// overlap.
  std::optional<std::size_t> to_first_host;
  std::string rate = "10gbit";          ///< Rate of each host's link, each way.
  std::vector<std::string> link_rates;  ///< "HOST=RATE" for each host with another rate.
};

/// Input of a planner, made from a request.
struct ReshardProblem {
  transfer::ReshardTask task;
  transfer::Topology topology;
  transfer::Network network;
  mesh::DeviceMesh source;
  mesh::DeviceMesh destination;
};

/// Returns the command-line words of a request for `weft plan --reshard` and `weft bench reshard`,
/// without --rate.
std::string command_words(const ReshardRequest& request);

/// Parses a request. Throws Error(kInvalidArgument) with the option, the value and the expected
/// format.
ReshardProblem parse_reshard_request(const ReshardRequest& request);

}  // namespace weft::apps
