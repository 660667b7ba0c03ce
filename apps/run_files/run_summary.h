#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/run_files/metrics.h"
#include "apps/run_files/run_directory.h"

namespace weft::apps {

/// A loss to get under, and what has it. A value.
struct Baseline {
  double loss = 0;        ///< 0: there is none to compare with.
  std::string name = {};  ///< "a unigram model".
};

/// What a trained model can do, for people: text that it writes, or a table of how good it is. A
/// value.
struct FinalReport {
  std::string title = {};  ///< "the model writes"
  std::string text = {};   ///< Empty: nothing is shown.
  /// Is wrapped on the screen; a table is not.
  bool prose = true;
  /// Left in the run's folder: name, what it is.
  std::vector<std::pair<std::string, std::string>> files = {};
  /// Numbers for summary.json: name, value.
  std::vector<std::pair<std::string, double>> figures = {};
};

/// What a whole run came to: summary.json, and the screen at its end. A value.
struct RunSummary {
  std::string name = {};
  std::string app = {};
  std::string outcome = {};       ///< "done", or "interrupted".
  std::int64_t steps = 0;         ///< Done, resumed ones included.
  std::int64_t total_steps = 0;   ///< Asked for.
  std::int64_t resumed_from = 0;  ///< 0: it began at the beginning.
  std::int64_t parameters = 0;
  double seconds = 0;                ///< Of this run's steps.
  double seconds_to_first_step = 0;  ///< From the start of the driver to the end of the first step.
  double first_loss = 0;
  /// Mean of the last steps, as steps differ by their data; of those that are finite.
  double last_loss = 0;
  std::int64_t skipped_updates = 0;  ///< Steps whose gradients were not finite.
  std::optional<double> first_validation_loss = {};
  std::optional<double> last_validation_loss = {};
  std::int64_t last_validation_step = 0;
  std::optional<double> best_validation_loss = {};  ///< The least; of equal ones the first.
  std::int64_t best_validation_step = 0;
  Baseline baseline = {};
  std::string unit = "tokens";  ///< See StepMetrics.
  double units_per_second = 0;  ///< Median of this run's steps.
  std::uint64_t resharded_bytes = 0;
  double transfer_seconds = 0;
  double exposed_transfer_seconds = 0;
  FinalReport report = {};           ///< What the trained model can do.
  std::int64_t recoveries = 0;       ///< Deaths, of devices or others, that the run survived.
  std::int64_t checkpoint_step = 0;  ///< The last checkpoint; 0: none.
  /// How long training stood still for this run's checkpoints, all together.
  double checkpoint_seconds = 0;

  /// 1 - exposed / transfer time; nothing when there were no transfers.
  std::optional<double> hidden_share() const;
};

/// Fills in what the steps tell: losses, speed, bytes, transfer times. Only steps after
/// `resumed_from` count for speed.
void summarize(const std::vector<StepMetrics>& steps, RunSummary& summary);

std::string to_json(const RunSummary& summary);

/// The last screen: losses, speed, transfers, the sample, and where everything lies. `colours` for
/// terminals. No line is wider than `columns`, unless a word is; without them, prose alone is
/// broken into lines.
std::string summary_screen(const RunSummary& summary, const RunDirectory& directory, bool colours,
                           std::optional<int> columns = std::nullopt);

}  // namespace weft::apps
