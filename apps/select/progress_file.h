#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/selection/graph_run.h"
#include "apps/selection/selection_run.h"

namespace weft::apps {

/// progress.json of a run's folder: state of its graph and selection, for resuming after a restart.
/// Not thread-safe.
class ProgressFile final {
 public:
  /// Reads the file if it exists. Throws Error(kDataLoss) if it is damaged.
  explicit ProgressFile(const std::filesystem::path& folder);

  GraphProgress graph() const;
  void write(const GraphProgress& progress);
  /// Returns the saved selection. Null if there is none or its digest of fixed options differs.
  std::optional<SelectionProgress> selection(const std::string& digest) const;
  void write(const SelectionProgress& progress, const std::string& digest);
  /// Removes the file when the selection is done.
  void remove() const { std::filesystem::remove(path_); }

 private:
  const std::filesystem::path path_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::object();
};

/// Returns the rounds as JSON, also for summaries.
nlohmann::ordered_json rounds_json(const std::vector<RoundResult>& rounds);

}  // namespace weft::apps
