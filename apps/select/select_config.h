#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "actors/launch/cluster_config.h"
#include "apps/select_input/select_input.h"
#include "apps/selection/generated_points.h"
#include "apps/selection/selection_run.h"
#include "core/config/config_document.h"

namespace weft::apps {

/// Number of points to choose, or their share.
struct Budget {
  std::uint32_t thousandths_of_percent = 10'000;
  std::optional<std::uint64_t> points = {};

  /// Returns the number of points to choose of `of`. Throws Error(kInvalidArgument) unless it is 1
  /// to `of`.
  std::uint64_t of(std::uint64_t of) const;
};

/// Run file of `app: select`. A value.
struct SelectConfig {
  std::string name;
  actors::ClusterConfig cluster;
  actors::RecoveryConfig recovery;
  std::filesystem::path scratch;
  // Exactly one of these three is the source of points.
  std::optional<std::filesystem::path> points = {};  ///< `input.points`: an existing store.
  GeneratedPoints generated = {};                    ///< `input.generated`: a store to generate in
                                                     ///< `scratch`.
  std::optional<SelectInput> input = {};             ///< `input.path` and its options.
  /// `input.neighbors`: .npy files of ids and similarities. If absent, neighbours are searched
  /// among the vectors or read from a column of the input.
  std::optional<std::filesystem::path> neighbours = {}, similarities = {};
  std::uint32_t num_neighbours = 10;
  double recall = 0.95;
  double similarity_floor = 0;
  Budget budget;
  /// 0 for `partitions: auto`.
  std::uint32_t partitions = 0;
  /// `forecast: warn`: run even if the forecast exceeds the memory limit.
  bool ignore_memory_forecast = false;
  /// Plan without what follows from the points: their store, the count, partitions and budgets.
  SelectionPlan plan;

  std::uint32_t num_workers() const;
  /// Return the folders of the points and of the prepared input. They may not exist yet.
  std::filesystem::path store() const;
  std::filesystem::path prepared() const;
};

/// Reads a whole run file. Throws Error(kInvalidConfig), which lists all problems.
SelectConfig read_select(const ConfigDocument& document);

}  // namespace weft::apps
