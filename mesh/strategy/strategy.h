#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/ops/op_definition.h"
#include "mesh/sharding/device_mesh.h"
#include "mesh/sharding/spec.h"

namespace weft::mesh {

/// Sharding of one op over a mesh.
struct OpSharding {
  /// Axes that split each factor of the op's signature, outermost first.
  std::vector<std::vector<int>> axes;
  /// Axes over which all inputs, and so the outputs, are partial sums. Only for ops that are linear
  /// in all inputs together (add). Ascending.
  std::vector<int> partial_axes;
  friend bool operator==(const OpSharding&, const OpSharding&) = default;
};

/// Frequency at which tensors that are kept split are gathered for use.
enum class GatherFrequency : std::uint8_t {
  kStep,        ///< Parameters once per step; activations as kMicrobatch.
  kMicrobatch,  ///< Once per microbatch: the backward reuses what the forward has gathered.
  kUse,         ///< Once in the forward and once in the backward; nothing is kept between.
};
/// Returns "step", "microbatch" or "use".
std::string_view to_string(GatherFrequency gather);

/// Sharding of a mesh's part of a graph, which partition() carries out. Pure data, made by layouts
/// (mesh/layouts).
struct ShardingStrategy {
  /// Sharding of every node on the mesh.
  std::map<NodeId, OpSharding> ops;
  /// Specs in which values are stored between ops ("home" lines of the file). Parameters, inputs
  /// and received values have one. Other values without one stay as their op makes them.
  std::map<ValueId, Spec> storage_specs;
  GatherFrequency gather = GatherFrequency::kMicrobatch;
  friend bool operator==(const ShardingStrategy&, const ShardingStrategy&) = default;
};

/// Ways in which a strategy splits the dimensions that ops normalise or select over. Its graph has
/// these ops in parts: see split_graph() (mesh/layouts).
struct FeatureSplits {
  std::int64_t residual = 1;  ///< Splits of "embed", of activations.
  std::int64_t hidden = 1;    ///< Splits of "heads", "mlp", "vocab", of activations.
  std::int64_t rows = 1;      ///< Splits of "vocab", of an embedding's table.
  /// True for "Vocab-2" (arXiv 2411.05288): the forward prepares the gradient of an output layer's
  /// input by slices of the vocabulary, and the backward only combines them. See
  /// split_cross_entropy_input_grad.cc (core/ops). False for "Vocab-1".
  bool early_input_grad = false;
  bool any() const { return residual > 1 || hidden > 1 || rows > 1; }
  friend bool operator==(const FeatureSplits&, const FeatureSplits&) = default;
};

/// Part of a graph that is on one mesh.
struct MeshGraph {
  const Graph& graph;
  const DeviceMesh& mesh;
  std::vector<NodeId> nodes;  ///< Ascending.
};

/// Specs that an op's inputs must have and its outputs get.
struct OpSpecs {
  std::vector<Spec> inputs;
  std::vector<Spec> outputs;
  /// Axes that split a reduction factor, over which the outputs are partial. Ascending.
  std::vector<int> reduced_axes;
};
OpSpecs specs_of(const FactorSignature& signature, const OpSharding& sharding);

/// Returns the sharding of a backward node, by that of its forward node. Each factor is split like
/// the forward factor of the same dimension of the same tensor, or of the tensor whose gradient it
/// is. So the three products of a linear share tokens, k and features. Factors without a forward
/// factor are not split.
OpSharding inherited(const Graph& graph, const Node& backward, const OpSharding& forward);

/// Returns the number of parts into which these axes split.
std::int64_t num_parts(const std::vector<int>& axes, const DeviceMesh& mesh);

/// Throws Error(kInvalidConfig) that names node, dimension and axis unless the op can be split like
/// this: each axis used once, no factor split that must be whole, all slices equal and in whole
/// units.
void check_op_sharding(const MeshGraph& part, NodeId node, const OpSharding& sharding);

}  // namespace weft::mesh
