#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/config/config_node.h"
#include "mesh/partition/rules.h"
#include "mesh/topology/device_mesh.h"
#include "transfer/reshard/strategy.h"

namespace weft::mesh {

/// One entry of the `meshes:` section.
struct MeshConfig {
  std::string name;
  std::vector<std::string> hosts;  ///< In the order in which ranks fill them; empty: all hosts.
  std::vector<MeshAxis> axes;
};

/// One entry of `pipeline.stages`: so many layers of the model on this mesh.
struct StageConfig {
  int mesh = 0;
  int layers = 1;
};

/// The sections `meshes:`, `sharding:` and `pipeline:` of a run: where everything lies and in what order it runs. A value.
struct LayoutConfig {
  std::vector<MeshConfig> meshes;
  ShardingRules sharding;
  std::vector<StageConfig> stages;
  std::string schedule = "eager-1f1b";
  int microbatches = 1;
  transfer::Strategy resharding = transfer::Strategy::kWeft;
  int credits = 2;  ///< Transfers under way per edge.
  /// Bytes per second of each host's link, each way; not a section of its own: who reads `cluster:` fills it in.
  std::map<std::string, double> links;

  /// Of a host that is not in `links`: 10 Gbit/s.
  static constexpr double kUnknownLink = 1.25e9;

  int num_layers() const;
  /// Stage of each layer, ascending.
  std::vector<int> stage_of_layer() const;
  std::vector<int> mesh_of_stage() const;
};

/// Reads the three sections of the document's root. Throws Error(kInvalidConfig) with places for unknown meshes, axes and names,
/// stages without layers, and stages that share a mesh.
LayoutConfig parse_layout(const ConfigNode& root);

}  // namespace weft::mesh
