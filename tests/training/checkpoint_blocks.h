#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mesh/program/checkpoint_programs.h"
#include "mesh/runtime/in_process_training.h"

namespace weft::test {

/// Parameters and moments by the names that a checkpoint gives them.
using Blocks = std::map<std::string, std::vector<float>>;

inline mesh::StepRequest checkpoint(const std::string& program, std::uint64_t run) {
  mesh::StepRequest request;
  request.program = program;
  request.run = run;
  return request;
}

/// The pieces of a batch, with what the driver's buffer has of each.
template <typename Visit>
void for_each_piece(mesh::InProcessTraining& training, const mesh::TrainingPlan& plan,
                    const mesh::CheckpointBatch& batch, const Visit& visit) {
  const std::span<float> buffer = training.driver_block(mesh::kCheckpointBuffer);
  for (const mesh::CheckpointPiece& piece : batch.pieces) {
    const Value& value =
        plan.partition.graph.value(plan.partition.graph.parameters()[piece.parameter].value);
    visit(mesh::checkpoint_blocks(value.name)[piece.block], value, piece,
          buffer.subspan(piece.offset / sizeof(float), static_cast<std::size_t>(piece.count)));
  }
}

inline Blocks gather(mesh::InProcessTraining& training, const mesh::TrainingPlan& plan,
                     std::uint64_t run) {
  Blocks blocks;
  for (const mesh::CheckpointBatch& batch : plan.checkpoint) {
    training.run(checkpoint(batch.gather.front().name, 1000 * run++));
    for_each_piece(training, plan, batch,
                   [&](const std::string& name, const Value& value, const auto& piece, auto part) {
                     blocks[name].resize(static_cast<std::size_t>(value.type.elements()));
                     std::ranges::copy(part, blocks[name].begin() + piece.begin);
                   });
  }
  return blocks;
}

inline void scatter(mesh::InProcessTraining& training, const mesh::TrainingPlan& plan,
                    const Blocks& blocks, std::uint64_t run) {
  for (const mesh::CheckpointBatch& batch : plan.checkpoint) {
    for_each_piece(training, plan, batch,
                   [&](const std::string& name, const Value&, const auto& piece, auto part) {
                     const auto from = blocks.at(name).begin() + piece.begin;
                     std::copy(from, from + piece.count, part.begin());
                   });
    training.run(checkpoint(batch.scatter.front().name, 1000 * run++ + 1));
  }
}

}  // namespace weft::test
