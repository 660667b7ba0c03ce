#pragma once

#include <vector>

#include "apps/run_files/checkpoint.h"
#include "core/evaluate/evaluation.h"

namespace weft::apps {

/// Names and shapes of a graph's parameters.
ParameterList parameter_list(const Graph& graph);

/// Gives an evaluation's parameters the values of a trained model, by name.
/// Throws Error(kIncompatible) if one is not among them, or has another shape.
void set_parameters(Evaluation& evaluation, const std::vector<TensorView>& states);

}  // namespace weft::apps
