#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/selection/selection_run.h"

namespace weft::apps {

/// progress.json of a run's folder: how far it is, for who goes on. One thread.
class ProgressFile final {
 public:
  /// `digest`: of what must not change.
  ProgressFile(const std::filesystem::path& folder, std::string digest);

  /// Nothing if it is not there, or of another selection. Throws Error(kDataLoss) if it is damaged.
  std::optional<SelectionProgress> read() const;
  void write(const SelectionProgress& progress) const;
  /// It is done: there is nothing to go on from.
  void remove() const { std::filesystem::remove(path_); }

 private:
  const std::filesystem::path path_;
  const std::string digest_;
};

/// Also of summaries.
nlohmann::ordered_json rounds_json(const std::vector<RoundResult>& rounds);

}  // namespace weft::apps
