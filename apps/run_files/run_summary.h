#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/run_files/metrics.h"
#include "apps/run_files/run_directory.h"

namespace weft::apps {

/// Loss of a trivial predictor, for comparison.
struct Baseline {
  double loss = 0;        ///< 0 if there is no baseline.
  std::string name = {};  ///< Name such as "a unigram model".
};

/// Report on a trained model for users: text that it writes, or a table of scores.
struct FinalReport {
  std::string title = {};  ///< "the model writes"
  std::string text = {};   ///< Empty if there is no report.
  /// True if the screen wraps the text; tables are not wrapped.
  bool prose = true;
  /// Files in the run's folder: name, description.
  std::vector<std::pair<std::string, std::string>> files = {};
  /// Numbers for summary.json: name, value.
  std::vector<std::pair<std::string, double>> figures = {};
};

/// Results of a whole run, for summary.json and the final screen.
struct RunSummary {
  std::string name = {};
  std::string app = {};
  std::string outcome = {};       ///< "done", "interrupted" or "failed: REASON".
  std::int64_t steps = 0;         ///< Steps done, including those before a resume.
  std::int64_t total_steps = 0;   ///< Steps requested.
  std::int64_t resumed_from = 0;  ///< 0 if the run did not resume.
  std::int64_t parameters = 0;
  double seconds = 0;                ///< Duration of the steps of this run.
  double seconds_to_first_step = 0;  ///< Time from the driver's start to the end of the first step.
  double first_loss = 0;
  /// Mean of the finite losses of the last steps, since single steps differ by their data.
  double last_loss = 0;
  std::int64_t skipped_updates = 0;  ///< Steps whose gradients were not finite.
  std::optional<double> first_validation_loss = {};
  std::optional<double> last_validation_loss = {};
  std::int64_t last_validation_step = 0;
  std::optional<double> best_validation_loss = {};  ///< Least validation loss; the earlier one on a
                                                    ///< tie.
  std::int64_t best_validation_step = 0;
  Baseline baseline = {};
  std::string unit = "tokens";  ///< Unit of throughput; see StepMetrics.
  double units_per_second = 0;  ///< Median of the steps of this run.
  std::uint64_t resharded_bytes = 0;
  double transfer_seconds = 0;
  double exposed_transfer_seconds = 0;
  FinalReport report = {};           ///< Report of the app on the trained model.
  std::int64_t recoveries = 0;       ///< Failures that the run survived.
  std::int64_t checkpoint_step = 0;  ///< Step of the last checkpoint; 0: none.
  /// Seconds that training paused for this run's checkpoints.
  double checkpoint_seconds = 0;

  /// Returns 1 - exposed / transfer time; nullopt if there were no transfers.
  std::optional<double> hidden_share() const;
};

/// Computes losses, speed, bytes and transfer times from the steps. Only steps after `resumed_from`
/// count for speed, bytes and times.
void summarize(const std::vector<StepMetrics>& steps, RunSummary& summary);

std::string to_json(const RunSummary& summary);

/// Returns the final screen: losses, speed, transfers, the report and the list of files. `colours`
/// is for terminals. Breaks lines at `columns`, or only prose if it is not set.
std::string summary_screen(const RunSummary& summary, const RunDirectory& directory, bool colours,
                           std::optional<int> columns = std::nullopt);

}  // namespace weft::apps
