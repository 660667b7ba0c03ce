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

/// How many points are to be chosen: a share of them, or a number.
struct Budget {
  std::uint32_t thousandths_of_percent = 10'000;
  std::optional<std::uint64_t> points = {};

  /// Throws Error(kInvalidArgument) unless it is 1 to `of`.
  std::uint64_t of(std::uint64_t of) const;
};

/// A run file of `app: select`. A value.
struct SelectConfig {
  std::string name;
  actors::ClusterConfig cluster;
  actors::RecoveryConfig recovery;
  std::filesystem::path scratch;
  // One of these is what to choose from.
  std::optional<std::filesystem::path> points = {};  ///< `input.points`: a store that is there.
  GeneratedPoints generated = {};                    ///< `input.generated`: made in `scratch`.
  std::optional<SelectInput> input = {};             ///< `input.path`, and what belongs to it.
  /// `input.neighbors`: .npy files of ids and of similarities; else the graph is made of vectors,
  /// or of a column of the input.
  std::optional<std::filesystem::path> neighbours = {}, similarities = {};
  std::uint32_t num_neighbours = 10;
  double recall = 0.95;
  double similarity_floor = 0;
  Budget budget;
  /// `partitions: auto`: 0.
  std::uint32_t partitions = 0;
  /// `forecast: warn`: a cap that the forecast finds too small is tried.
  bool although_too_little = false;
  /// But for what follows from the points: their store, the count, partitions and budgets.
  SelectionPlan plan;

  std::uint32_t num_workers() const;
  /// Where the points are, or will be; of an input, where what is made of it lies.
  std::filesystem::path store() const;
  std::filesystem::path prepared() const;
};

/// Reads a whole run file. Throws Error(kInvalidConfig) with all problems.
SelectConfig read_select(const ConfigDocument& document);

}  // namespace weft::apps
