#pragma once

#include <cstdint>
#include <vector>

#include "apps/run_files/safetensors.h"

namespace weft::apps {

/// The parameters that a run has come to. Borrows them.
struct TrainedValues {
  const std::vector<TensorView>& parameters;  ///< After the last step.
  std::int64_t step = 0;                      ///< The last one.
  /// After the step whose validation loss was the least, where the run keeps them
  /// (`checkpoint.best`); else null.
  const std::vector<TensorView>* best = nullptr;
  std::int64_t best_step = 0;
};

}  // namespace weft::apps
