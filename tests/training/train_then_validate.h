#pragma once

#include <cstdint>
#include <vector>

#include "mesh/runtime/in_process_training.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {

/// Returns the results of `steps` training steps and one validation step. Runs on `device` if it is
/// not null, else on CPU devices.
inline std::vector<mesh::StepResult> train_then_validate(
    const mesh::TrainingPlan& plan, std::uint64_t steps,
    const transfer::LoopbackOptions& options = {}, Device* device = nullptr) {
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining training(plan, batches, 7, options, device);
  std::vector<mesh::StepResult> results;
  for (std::uint64_t step = 0; step < steps; ++step)
    results.push_back(training.run(train_step(step)));
  mesh::StepRequest validate;
  validate.program = mesh::kValidateProgram;
  validate.split = mesh::Split::kValidation;
  results.push_back(training.run(validate));
  return results;
}

}  // namespace weft::test
