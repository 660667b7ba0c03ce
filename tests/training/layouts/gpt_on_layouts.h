#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "apps/models/gpt_graph.h"
#include "core/autodiff/differentiate.h"
#include "mesh/plan/training_plan.h"
#include "mesh/runtime/in_process_training.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {

/// Mesh with axes and a layout.
struct LayoutMesh {
  std::string layout;  ///< Name of the layout. "" for none.
  std::vector<MeshAxis> axes;
  std::optional<mesh::GatherFrequency> gather = {};
  bool shard_data = false;

  std::int64_t devices() const {
    std::int64_t devices = 1;
    for (const MeshAxis& axis : axes) devices *= axis.size;
    return devices;
  }
};

/// Returns a GPT shape that divides over q devices along each axis.
inline apps::GptShape gpt_shape(std::int64_t q, std::int64_t layers = 2) {
  apps::GptShape shape;
  shape.layers = layers;
  shape.width = q * q * q;
  while (shape.width < 16) shape.width *= 2;
  shape.heads = q;
  shape.sequence = 8;
  shape.batch = q * q;
  shape.vocabulary = shape.width;
  return shape;
}

inline mesh::ModelGraphs gpt_of(const apps::GptShape& shape, int microbatches) {
  const double scale = 1.0 / static_cast<double>(shape.batch * shape.sequence * microbatches);
  const apps::GptGraph model = apps::gpt_graph(shape, scale);
  return {differentiate(model.graph, model.loss), model.graph, model.loss};
}

/// Places each device on its own host.
inline mesh::MeshPlaces places_on(const std::vector<LayoutMesh>& meshes) {
  mesh::MeshPlaces places;
  int host = 0;
  for (const LayoutMesh& one : meshes) {
    places.emplace_back();
    for (std::int64_t d = 0; d < one.devices(); ++d)
      places.back().push_back({"host" + std::to_string(host++), 0});
  }
  return places;
}

/// Makes a plan of one stage per mesh with equally many layers. `layout` has all other settings.
/// `shape` is the shape of a half if microbatches are cut in two.
inline mesh::TrainingPlan plan_on(const std::vector<LayoutMesh>& meshes,
                                  const apps::GptShape& shape, int microbatches,
                                  const std::string& schedule = "1f1b",
                                  mesh::ParallelConfig layout = {},
                                  const mesh::PlanConditions& conditions = {}) {
  for (std::size_t m = 0; m < meshes.size(); ++m) {
    mesh::MeshConfig config{"mesh" + std::to_string(m), {}, meshes[m].axes};
    if (!meshes[m].layout.empty())
      config.layout =
          mesh::LayoutChoice{meshes[m].layout, {}, meshes[m].shard_data, meshes[m].gather};
    layout.meshes.push_back(std::move(config));
    layout.stages.push_back(
        {static_cast<int>(m), static_cast<int>(shape.layers / std::ssize(meshes))});
  }
  layout.schedule = schedule;
  layout.microbatches = microbatches;
  return mesh::make_training_plan(layout, gpt_of(shape, layout.step_microbatches()),
                                  places_on(meshes), conditions);
}

}  // namespace weft::test
