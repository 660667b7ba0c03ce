#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/selection/graph_run.h"
#include "apps/selection/selection_run.h"

namespace weft::apps {

/// progress.json of a run's folder: how far its graph and its selection are, for who goes on. One
/// thread.
class ProgressFile final {
 public:
  /// Reads it, if it is there. Throws Error(kDataLoss) if it is damaged.
  explicit ProgressFile(const std::filesystem::path& folder);

  GraphProgress graph() const;
  void write(const GraphProgress& progress);
  /// Nothing if there is none, or one of another `digest`, which is of what must not change.
  std::optional<SelectionProgress> selection(const std::string& digest) const;
  void write(const SelectionProgress& progress, const std::string& digest);
  /// It is done: there is nothing to go on from.
  void remove() const { std::filesystem::remove(path_); }

 private:
  const std::filesystem::path path_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::object();
};

/// Also of summaries.
nlohmann::ordered_json rounds_json(const std::vector<RoundResult>& rounds);

}  // namespace weft::apps
