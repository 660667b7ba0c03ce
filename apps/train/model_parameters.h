#pragma once

#include <vector>

#include "apps/run_files/checkpoint.h"
#include "core/evaluate/evaluation.h"

namespace weft::apps {

/// Returns names and shapes of a graph's parameters.
ParameterList parameter_list(const Graph& graph);

/// Copies the parameters of a trained model into an evaluation, by name. Throws
/// Error(kIncompatible) if a parameter is missing or has another shape.
void set_parameters(Evaluation& evaluation, const std::vector<TensorView>& states);

}  // namespace weft::apps
