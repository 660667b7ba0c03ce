#include "tests/bench/training_step/step_plan.h"

#include "core/autodiff/differentiate.h"

namespace weft::test {

mesh::TrainingPlan step_plan(const StepModel& model) {
  mesh::ParallelConfig layout;
  layout.meshes = {{.name = "device", .hosts = {}, .axes = {{"data", 1}}}};
  layout.stages = {{.mesh = 0, .layers = model.graph.num_blocks()}};
  const TrainingGraph training = differentiate(model.graph, model.loss);
  return mesh::make_training_plan(layout, {training, model.graph, model.loss},
                                  mesh::predict_places(layout, {{"host", 1}}));
}

}  // namespace weft::test
