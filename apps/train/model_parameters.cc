#include "apps/train/model_parameters.h"

#include <algorithm>

#include "core/base/error.h"

namespace weft::apps {

ParameterList parameter_list(const Graph& graph) {
  ParameterList list;
  for (const Parameter& parameter : graph.parameters())
    list.push_back({graph.value(parameter.value).name, parameter.shape});
  return list;
}

void set_parameters(Evaluation& evaluation, const std::vector<TensorView>& states) {
  for (const Parameter& parameter : evaluation.graph().parameters()) {
    const Value& value = evaluation.graph().value(parameter.value);
    const auto state = std::find_if(states.begin(), states.end(),
                                    [&](const TensorView& s) { return s.name == value.name; });
    if (state == states.end() || state->shape != value.type.shape)
      throw_error(ErrorCode::kIncompatible,
                  "parameter {} {} is missing, or has another shape, in the given values",
                  value.name, to_string(value.type));
    evaluation.set_parameter(parameter.value, state->values);
  }
}

}  // namespace weft::apps
