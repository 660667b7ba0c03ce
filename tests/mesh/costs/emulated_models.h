#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/autodiff/differentiate.h"
#include "core/ops/graph_builder.h"
#include "mesh/plan/training_plan.h"

namespace weft::test {

/// Durations of the passes of one block of an emulated model.
struct BlockSeconds {
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;
};

/// Skip connection: an additional tensor from one block to a later block.
struct Skip {
  int from = 0;
  int to = 0;
  int width = 3;       ///< Elements per row.
  double seconds = 0;  ///< Forward time of the op that makes the tensor. Its backward takes no
                       ///< time.
  int also_to = -1;    ///< Second block that uses the tensor. -1 if there is none.
};

inline constexpr std::int64_t kRows = 4, kWidth = 5, kSaved = 7, kWords = 11;

/// Input of a model's first block.
enum class FirstInput : std::uint8_t {
  kTable,  ///< Embeddings of token ids from a trained table.
  kData,   ///< Untrained data. The first block has no input gradient.
};

/// Builds a chain of emulated blocks with skip connections, an output layer and a loss. Tensors
/// between blocks have kWidth elements per row. Each block saves kSaved elements per row.
inline mesh::ModelGraphs emulated_model(const std::vector<BlockSeconds>& blocks,
                                        const std::vector<Skip>& skips = {},
                                        FirstInput first = FirstInput::kTable) {
  GraphBuilder b;
  const ValueId tokens = b.input("tokens", {DType::kI32, {kRows, 1}}, {"batch", "sequence"});
  const ValueId targets = b.input("targets", {DType::kI32, {kRows, 1}}, {"batch", "sequence"});
  const auto weights = [&](const std::string& name) {
    return b.parameter(name, {16}, zeros(), {"weights"});
  };
  ValueId x = tokens;
  if (first == FirstInput::kTable)
    x = b.embedding(b.parameter("table", {kWords, kWidth}, zeros(), {"vocab", "embed"}), tokens);
  std::vector<ValueId> skip_values;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    b.set_block(block);
    const auto scope = b.scope("block" + std::to_string(block));
    std::vector<ValueId> inputs{x};
    for (std::size_t s = 0; s < skips.size(); ++s) {
      if (skips[s].to == static_cast<int>(block) || skips[s].also_to == static_cast<int>(block))
        inputs.push_back(skip_values[s]);
    }
    const BlockSeconds& time = blocks[block];
    x = b.emulated_block(inputs, weights("w"),
                         {{1, kWidth}, time.forward, time.input_grad, time.weight_grad, kSaved});
    for (const Skip& skip : skips) {
      if (skip.from != static_cast<int>(block)) continue;
      // Skips must be sorted by `from`.
      skip_values.push_back(b.emulated_block({x},
                                             weights("skip" + std::to_string(skip_values.size())),
                                             {{skip.width}, skip.seconds, 0, 0, 0}));
    }
  }
  const ValueId logits = b.emulated_block({x}, weights("head"), {{1, kWords}, 0, 0, 0, 0});
  const ValueId loss = b.cross_entropy(logits, targets, 1.0);
  const Graph graph = std::move(b).finish();
  return {differentiate(graph, loss), graph, loss};
}

inline std::string host_of(std::size_t mesh, int device) {
  return "host" + std::to_string(mesh) + "-" + std::to_string(device);
}

/// Makes a layout: data-parallel meshes of the given sizes, each device on its own host, and stages
/// given as pairs of mesh and number of blocks.
inline mesh::ParallelConfig emulated_layout(const std::vector<int>& mesh_sizes,
                                            const std::vector<std::pair<int, int>>& stages,
                                            const std::string& schedule, int microbatches) {
  mesh::ParallelConfig layout;
  for (std::size_t m = 0; m < mesh_sizes.size(); ++m) {
    layout.meshes.push_back({"mesh" + std::to_string(m), {}, {{"data", mesh_sizes[m]}}});
  }
  for (const auto& [mesh, layers] : stages) layout.stages.push_back({mesh, layers});
  layout.sharding = {{{"batch", {"data"}}}};
  layout.schedule = schedule;
  layout.microbatches = microbatches;
  return layout;
}

/// Makes the plan of an emulated layout. `link`: bytes per second of each host.
inline mesh::TrainingPlan emulated_plan(const mesh::ParallelConfig& layout,
                                        const mesh::ModelGraphs& model, double link = 1000) {
  mesh::MeshPlaces places;
  mesh::PlanConditions conditions;
  for (std::size_t m = 0; m < layout.meshes.size(); ++m) {
    places.emplace_back();
    for (int d = 0; d < layout.meshes[m].axes[0].size; ++d) {
      places.back().push_back({host_of(m, d), 0});
      conditions.links[host_of(m, d)] = link;
    }
  }
  return mesh::make_training_plan(layout, model, places, conditions);
}

}  // namespace weft::test
