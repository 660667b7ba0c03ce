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

/// How one op is spread over a mesh.
struct OpSharding {
  /// By factor of the op's signature: the axes that split it, outer first.
  std::vector<std::vector<int>> axes;
  /// Axes over which all inputs are partial sums, and so the outputs: for ops that are linear in
  /// all inputs together (add). Ascending.
  std::vector<int> passed;
  friend bool operator==(const OpSharding&, const OpSharding&) = default;
};

/// How often what is kept split, and needed otherwise, is brought together.
enum class Gather : std::uint8_t {
  kStep,        ///< Parameters once per step; activations as with kMicrobatch.
  kMicrobatch,  ///< Once per microbatch: what its forward has gathered is kept for its backward.
  kUse,         ///< In its forward, and in its backward again; nothing is kept between.
};
/// "step", "microbatch", "use".
std::string_view to_string(Gather gather);

/// How the part of a graph that lies on one mesh is spread over it: what partition() executes. Pure
/// data; layouts make it (mesh/layouts).
struct ShardingStrategy {
  /// Of every node on the mesh.
  std::map<NodeId, OpSharding> ops;
  /// How a value is kept between ops. Parameters, inputs and what comes from other meshes have one;
  /// a value that is computed here and has none stays as its op makes it.
  std::map<ValueId, Spec> homes;
  Gather gather = Gather::kMicrobatch;
  friend bool operator==(const ShardingStrategy&, const ShardingStrategy&) = default;
};

/// How many ways a strategy splits the dimensions that ops normalise or select over. Its graph has
/// these ops in parts: see split_graph() (mesh/layouts).
struct FeatureSplits {
  std::int64_t residual = 1;  ///< "embed", of activations.
  std::int64_t hidden = 1;    ///< "heads", "mlp", "vocab", of activations.
  std::int64_t rows = 1;      ///< "vocab", of an embedding's table.
  /// "Vocab-2" (arXiv 2411.05288): the gradient of an output layer's input is prepared in forward,
  /// slice by slice of the vocabulary, so that its backward only combines the slices: see
  /// split_cross_entropy_input_grad.cc (core/ops). Else "Vocab-1".
  bool early_input_grad = false;
  bool any() const { return residual > 1 || hidden > 1 || rows > 1; }
  friend bool operator==(const FeatureSplits&, const FeatureSplits&) = default;
};

/// The part of a graph that lies on a mesh.
struct MeshGraph {
  const Graph& graph;
  const DeviceMesh& mesh;
  std::vector<NodeId> nodes;  ///< Ascending.
};

/// The specs that an op's inputs must have and its outputs get.
struct OpSpecs {
  std::vector<Spec> inputs;
  std::vector<Spec> outputs;
  /// Axes that split a reduction factor: the outputs are partial over them. Ascending.
  std::vector<int> reduced_axes;
};
OpSpecs specs_of(const FactorSignature& signature, const OpSharding& sharding);

/// The sharding of a backward node by that of its forward node: each of its factors is split as the
/// forward factor that stands for the same dimension of the same tensor or of its gradient. So the
/// three products of a linear share tokens, k and features. Factors that the forward op lacks are
/// not split.
OpSharding inherited(const Graph& graph, const Node& backward, const OpSharding& forward);

/// How many ways these axes split.
std::int64_t ways(const std::vector<int>& axes, const DeviceMesh& mesh);

/// Throws Error(kInvalidConfig) that names node, dimension and axis unless the op can be split so:
/// each axis once, no factor that must be whole, all slices of one size and in whole units.
void check(const MeshGraph& part, NodeId node, const OpSharding& sharding);

}  // namespace weft::mesh
