#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mesh/program/parameter_blocks.h"
#include "mesh/runtime/training_engine.h"

namespace weft::test {

/// Parameters and moments by their names in a checkpoint.
using Blocks = std::map<std::string, std::vector<float>>;

inline std::string block_name(const Value& value, const StateSlice& piece) {
  return mesh::optimizer_blocks(value.name)[static_cast<std::size_t>(piece.block)];
}

inline Blocks gather(mesh::TrainingEngine& training) {
  const Graph& graph = training.graph();
  Blocks blocks;
  training.gather([&](const StateSlice& piece, std::span<const float> part) {
    const Parameter& parameter = graph.parameters()[piece.parameter];
    std::vector<float>& block = blocks[block_name(graph.value(parameter.value), piece)];
    block.resize(num_elements(parameter.shape));
    std::ranges::copy(part, block.begin() + piece.first);
  });
  return blocks;
}

inline void scatter(mesh::TrainingEngine& training, const Blocks& blocks) {
  const Graph& graph = training.graph();
  training.restore(
      [&](const StateSlice& piece, std::span<float> part) {
        const Value& value = graph.value(graph.parameters()[piece.parameter].value);
        std::ranges::copy(
            std::span(blocks.at(block_name(value, piece))).subspan(piece.first, part.size()),
            part.begin());
      },
      0);
}

}  // namespace weft::test
