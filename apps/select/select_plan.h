#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/select/select_config.h"
#include "apps/select_input/select_input.h"
#include "apps/selection/selection_run.h"

namespace weft::apps {

/// Facts about the points that are known before the run starts. A value.
struct KnownPoints {
  std::uint64_t points = 0, edges = 0;  ///< Directed edges.
  std::uint32_t shards = ShardLayout::kShards;
  bool exists = false;      ///< True if the store exists.
  std::uint64_t width = 0;  ///< Width of the graph's vectors. 0 if no graph is built.
};

/// Returns the facts of the store, or the forecast for a store that does not exist yet (14.6 edges
/// a point if generated). Null for an input whose rows have not been counted. Throws as
/// size_of_input() does.
std::optional<KnownPoints> known_points(const SelectConfig& config);
/// Forecasts the points of an input: 1.6 edges per neighbour searched for, as edges are symmetric.
KnownPoints forecast_points(const SelectConfig& config, const InputSize& size);

/// Completes the plan with all that follows from the points. Throws Error(kInvalidArgument) for an
/// impossible budget or memory limit.
SelectionPlan plan_of(const SelectConfig& config, const KnownPoints& known);
/// Returns a hash of all that must be equal to resume a selection.
std::string digest_of(const SelectionPlan& plan, const KnownPoints& known);

// Texts for users.
std::string points_text(const SelectConfig& config, const KnownPoints& known);
std::string objective_text(const SelectionPlan& plan);
std::string bounding_text(const SelectionSettings& settings);
std::string rounds_text(const SelectionPlan& plan);

/// Format the plan: rounds, bytes per process, disk use and passes over the points.
std::string plan_text(const SelectConfig& config, const KnownPoints& known,
                      const SelectionPlan& plan);
nlohmann::ordered_json plan_json(const SelectConfig& config, const KnownPoints& known,
                                 const SelectionPlan& plan);

}  // namespace weft::apps
