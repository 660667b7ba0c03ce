#pragma once

#include <vector>

#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// Maker of plans of one model. Decides what the layout and the conditions leave open, by
/// pipeline.memory, and records each decision in the plan: how often parameters are gathered, the
/// first schedule of `auto`, copies of the state. Pure; borrows everything.
class Planner final {
 public:
  Planner(const ModelGraphs& model, const MeshPlaces& places, const PlanConditions& conditions)
      : model_(model), places_(places), conditions_(conditions) {}

  /// Throws as make_training_plan().
  TrainingPlan make(const ParallelConfig& layout) const;

 private:
  /// Makes the plan of a layout in which every mesh states how often it gathers.
  TrainingPlan make_gathering(const ParallelConfig& layout) const;
  /// Compiles the first schedule whose programs fit into pipeline.memory, without copies of the
  /// state if need be.
  void choose_schedule(TrainingPlan& plan, const Partition& forward_only) const;
  void compile_steps(TrainingPlan& plan, const Partition& forward_only, Schedule schedule) const;
  /// Drops copies of the state that may be dropped. Returns whether the plan then fits.
  bool drop_copies_to_fit(TrainingPlan& plan) const;
  /// Records that copies which the run asks for fit.
  void record_copies(TrainingPlan& plan) const;

  const ModelGraphs& model_;
  const MeshPlaces& places_;
  const PlanConditions& conditions_;
};

}  // namespace weft::mesh
