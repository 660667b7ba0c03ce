#pragma once

#include <string>
#include <vector>

#include "apps/models/gpt_graph.h"
#include "core/autodiff/differentiate.h"
#include "mesh/plan/training_plan.h"
#include "mesh/runtime/step.h"

namespace weft::test {

/// Meshes and layers for training a small GPT.
struct Case {
  std::string name;
  std::vector<std::pair<int, int>> meshes;  ///< (data, tensor) per stage.
  std::vector<int> layers;                  ///< Layers per stage.
  /// True with data or tensor parallelism, where losses are equal within a tolerance only.
  bool reorders_sums = false;
};

inline constexpr std::int64_t kVocabulary = 61;
inline constexpr std::int64_t kSequence = 8;
inline constexpr int kMicrobatches = 4;
inline constexpr std::int64_t kRows = 4;  ///< Sequences per microbatch.

inline std::vector<Case> master_cases() {
  return {
      {"one_device", {{1, 1}}, {3}, false},
      {"two_stages", {{1, 1}, {1, 1}}, {2, 1}, false},
      {"two_stages_tensor_2", {{1, 2}, {1, 2}}, {1, 2}, true},
      {"two_stages_data_2", {{2, 1}, {2, 1}}, {2, 1}, true},
      {"quickstart", {{1, 2}, {2, 1}}, {2, 1}, true},
      {"three_stages", {{1, 1}, {1, 1}, {1, 1}}, {1, 1, 1}, false},
      {"two_by_two_to_one", {{2, 2}, {1, 1}}, {2, 1}, true},
      {"three_stages_mixed", {{2, 1}, {1, 2}, {2, 2}}, {1, 1, 1}, true},
  };
}

inline mesh::ModelGraphs small_gpt(std::int64_t layers = 3, bool tied_embeddings = false,
                                   DType precision = DType::kF32) {
  const apps::GptShape shape{layers,          16,       2, kSequence, kRows, kVocabulary,
                             tied_embeddings, precision};
  const double scale = 1.0 / (kRows * kSequence * kMicrobatches);
  const apps::GptGraph model = apps::gpt_graph(shape, scale);
  return {differentiate(model.graph, model.loss), model.graph, model.loss};
}

/// Places each mesh on its own host. A mesh of several rows spans two hosts.
inline mesh::MeshPlaces places_of(const Case& c) {
  mesh::MeshPlaces places;
  for (std::size_t m = 0; m < c.meshes.size(); ++m) {
    places.emplace_back();
    for (int d = 0; d < c.meshes[m].first; ++d) {
      for (int t = 0; t < c.meshes[m].second; ++t) {
        places.back().push_back(
            {"host" + std::to_string(2 * m + d), static_cast<std::uint32_t>(t)});
      }
    }
  }
  return places;
}

inline mesh::ParallelConfig layout_of(const Case& c, const std::string& schedule,
                                      transfer::ReshardAlgorithm strategy) {
  mesh::ParallelConfig layout;
  for (std::size_t m = 0; m < c.meshes.size(); ++m) {
    layout.meshes.push_back({"mesh" + std::to_string(m),
                             {},
                             {{"data", c.meshes[m].first}, {"tensor", c.meshes[m].second}}});
    layout.stages.push_back({static_cast<int>(m), c.layers[m]});
  }
  layout.sharding = {{{"batch", {"data"}}, {"heads", {"tensor"}}, {"mlp", {"tensor"}}}};
  layout.schedule = schedule;
  layout.microbatches = kMicrobatches;
  layout.resharding = strategy;
  return layout;
}

inline mesh::TrainingPlan plan_of(const Case& c, const std::string& schedule,
                                  transfer::ReshardAlgorithm strategy,
                                  DType precision = DType::kF32) {
  return mesh::make_training_plan(layout_of(c, schedule, strategy), small_gpt(3, false, precision),
                                  places_of(c));
}

inline mesh::StepRequest train_step(std::uint64_t step) {
  mesh::StepRequest request;
  request.program = mesh::kTrainProgram;
  request.execution_number = step + 1;
  request.step = step;
  request.optimizer = {3e-3, 0.9, 0.95, 1e-8, 0.1, 1.0, static_cast<std::int64_t>(step) + 1};
  return request;
}

}  // namespace weft::test
