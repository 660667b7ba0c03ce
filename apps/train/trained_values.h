#pragma once

#include <cstdint>
#include <vector>

#include "apps/run_files/safetensors.h"

namespace weft::apps {

/// Parameters of a trained model. Borrows them.
struct TrainedValues {
  const std::vector<TensorView>& parameters;  ///< After the last step.
  std::int64_t step = 0;                      ///< Number of the last step.
  /// Parameters after the step with the least validation loss. Null unless the run keeps them
  /// (`checkpoint.best`).
  const std::vector<TensorView>* best = nullptr;
  std::int64_t best_step = 0;
};

}  // namespace weft::apps
