#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/select/select_config.h"
#include "apps/select_input/select_input.h"
#include "apps/selection/selection_run.h"

namespace weft::apps {

/// What is known of the points before anything starts. A value.
struct KnownPoints {
  std::uint64_t points = 0, edges = 0;  ///< Directed.
  std::uint32_t shards = ShardLayout::kShards;
  bool are_there = false;   ///< The store has been made.
  std::uint64_t width = 0;  ///< Of the vectors that the graph is to be made of; 0: it is not.
};

/// Of the store, or what a generated one will have: 14.6 edges a point; of an input whose graph has
/// not been made, what is expected. Nothing of an input whose rows nobody has counted. Throws what
/// size_of_input() throws.
std::optional<KnownPoints> known_points(const SelectConfig& config);
/// Of an input of that size: some 1.6 edges for each neighbour that is looked for, as both sides
/// have an edge.
KnownPoints expected_points(const SelectConfig& config, const InputSize& size);

/// All that follows from the points. Throws Error(kInvalidArgument) for a budget or a cap that
/// cannot be.
SelectionPlan plan_of(const SelectConfig& config, const KnownPoints& known);
/// What must not change when a selection goes on: a hash of it.
std::string digest_of(const SelectionPlan& plan, const KnownPoints& known);

// For people.
std::string points_text(const SelectConfig& config, const KnownPoints& known);
std::string objective_text(const SelectionPlan& plan);
std::string bounding_text(const SelectionSettings& settings);
std::string rounds_text(const SelectionPlan& plan);

/// Rounds, bytes per process, disk and passes over the points.
std::string plan_text(const SelectConfig& config, const KnownPoints& known,
                      const SelectionPlan& plan);
nlohmann::ordered_json plan_json(const SelectConfig& config, const KnownPoints& known,
                                 const SelectionPlan& plan);

}  // namespace weft::apps
