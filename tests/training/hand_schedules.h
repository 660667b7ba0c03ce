#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "mesh/schedule/schedule.h"

namespace weft::test {

/// Parses a schedule from its actors' actions, such as "0F0 0F1 0B0".
inline mesh::Schedule schedule_from(std::string name, std::vector<int> actor_of_stage,
                                    const std::vector<std::string>& actors, int microbatches = 4) {
  mesh::Schedule schedule;
  schedule.name = std::move(name);
  schedule.stages = actor_of_stage.size();
  schedule.microbatches = microbatches;
  schedule.actor_of_stage = std::move(actor_of_stage);
  for (const std::string& text : actors) {
    schedule.actors.emplace_back();
    std::istringstream words(text);
    int stage = 0, microbatch = 0;
    char letter = ' ';
    while (words >> stage >> letter >> microbatch) {
      const std::size_t kind = std::string("FBIWR").find(letter);
      if (kind == std::string::npos) throw std::invalid_argument(text);
      schedule.actors.back().push_back({stage, static_cast<mesh::ActionKind>(kind), microbatch});
    }
  }
  return schedule;
}

/// Interleaved 1F1B in Megatron-LM's order. Stages 0 and 2 are on actor 0, stages 1 and 3 on actor
/// 1.
inline mesh::Schedule interleaved() {
  return schedule_from("interleaved by hand", {0, 1, 0, 1},
                       {"0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3",
                        "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3"});
}

/// V placement: stages 0 and 3 on actor 0, 1 and 2 on actor 1. Some backwards are split.
inline mesh::Schedule v_placement() {
  return schedule_from(
      "V by hand", {0, 1, 1, 0},
      {"0F0 0F1 0F2 3F0 3I0 0F3 3F1 3I1 3W0 0B0 3F2 3W1 3B2 0I1 3F3 3B3 0I2 0W1 0W2 0B3",
       "1F0 2F0 1F1 2F1 1F2 2F2 2B0 1B0 1F3 2F3 2I1 1I1 2W1 2B2 1W1 1B2 2B3 1B3"});
}

/// ZB-H1 (Qi et al., "Zero bubble pipeline parallelism", 2024) of two stages.
inline mesh::Schedule zb_h1() {
  return schedule_from("ZB-H1 by hand", {0, 1},
                       {"0F0 0F1 0I0 0W0 0F2 0I1 0W1 0F3 0I2 0W2 0I3 0W3",
                        "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1F3 1I3 1W2 1W3"});
}

/// 1F1B with explicit recomputation. The first stage recomputes before its gradients arrive.
inline mesh::Schedule with_recomputation() {
  return schedule_from(
      "1F1B with R", {0, 1},
      {"0F0 0F1 0R0 0B0 0F2 0R1 0B1 0F3 0R2 0B2 0R3 0I3 0W3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"});
}

/// 1F1B with all weight gradients at the end.
inline mesh::Schedule late_weights() {
  return schedule_from("late weights", {0, 1},
                       {"0F0 0F1 0F2 0F3 0I0 0I1 0I2 0I3 0W0 0W1 0W2 0W3",
                        "1F0 1I0 1F1 1I1 1F2 1I2 1F3 1I3 1W0 1W1 1W2 1W3"});
}

}  // namespace weft::test
