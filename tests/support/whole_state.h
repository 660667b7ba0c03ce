#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/run_files/checkpoint.h"
#include "apps/train/model_parameters.h"
#include "mesh/runtime/training_engine.h"

namespace weft::test {

/// Returns the complete optimizer state of an engine.
inline std::vector<apps::ParameterState> whole_state(mesh::TrainingEngine& engine) {
  std::vector<apps::ParameterState> states;
  for (const auto& [name, shape] : apps::parameter_list(engine.graph())) {
    const std::vector<float> none(num_elements(shape));
    states.push_back({name, shape, none, none, none});
  }
  if (engine.supports_copies()) engine.copy_state();
  engine.gather([&](const StateSlice& piece, std::span<const float> values) {
    apps::ParameterState& state = states.at(piece.parameter);
    auto& block = piece.block == StateBlock::kValue         ? state.values
                  : piece.block == StateBlock::kFirstMoment ? state.first_moment
                                                            : state.second_moment;
    std::copy(values.begin(), values.end(), block.begin() + piece.first);
  });
  return states;
}

/// Restores the engine from that state.
inline void restore_whole(mesh::TrainingEngine& engine,
                          const std::vector<apps::ParameterState>& states,
                          std::int64_t steps_done) {
  engine.restore(
      [&](const StateSlice& piece, std::span<float> values) {
        const apps::ParameterState& state = states.at(piece.parameter);
        const auto& block = piece.block == StateBlock::kValue         ? state.values
                            : piece.block == StateBlock::kFirstMoment ? state.first_moment
                                                                      : state.second_moment;
        std::copy_n(block.begin() + piece.first, values.size(), values.begin());
      },
      steps_done);
}

}  // namespace weft::test
