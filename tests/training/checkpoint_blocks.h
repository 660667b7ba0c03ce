#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "mesh/in_process/in_process_training.h"
#include "mesh/program/checkpoint_programs.h"

namespace weft::test {

/// Parameters and moments by the names that a checkpoint gives them.
using Blocks = std::map<std::string, std::vector<float>>;

inline mesh::StepRequest checkpoint(const std::string& program, std::uint64_t run) {
  mesh::StepRequest request;
  request.program = program;
  request.run = run;
  return request;
}

inline Blocks gather(mesh::InProcessTraining& training, const mesh::TrainingPlan& plan, std::uint64_t run) {
  training.run(checkpoint("gather", run));
  Blocks blocks;
  for (const Parameter& parameter : plan.partition.graph.parameters()) {
    for (const std::string& name : mesh::checkpoint_blocks(plan.partition.graph.value(parameter.value).name)) {
      const auto values = training.driver_block(name);
      blocks[name].assign(values.begin(), values.end());
    }
  }
  return blocks;
}

inline void scatter(mesh::InProcessTraining& training, const Blocks& blocks, std::uint64_t run) {
  for (const auto& [name, values] : blocks) {
    const auto target = training.driver_block(name);
    ASSERT_EQ(target.size(), values.size());
    std::copy(values.begin(), values.end(), target.begin());
  }
  training.run(checkpoint("scatter", run));
}

}  // namespace weft::test
