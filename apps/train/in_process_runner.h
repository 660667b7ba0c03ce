#pragma once

#include "apps/train/mesh_engine.h"
#include "mesh/in_process/in_process_training.h"

namespace weft::apps {

/// All devices of a plan in this thread, over a loopback wire: for tests, and for looking at a layout without a cluster.
class InProcessRunner final : public PlanRunner {
 public:
  InProcessRunner(const mesh::TrainingPlan& plan, mesh::BatchSource& batches, std::uint64_t seed)
      : training_(plan, batches, seed) {}

  std::vector<mesh::StepReport> run(const mesh::StepRequest& request) override { return training_.run_on_devices(request); }
  std::span<float> driver_block(const std::string& name) override { return training_.driver_block(name); }
  std::int64_t clock_offset_ns(std::size_t) const override { return 0; }

 private:
  mesh::InProcessTraining training_;
};

}  // namespace weft::apps
