#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "apps/run_files/metrics.h"
#include "core/base/clock.h"

namespace weft::apps {

/// Output stream of progress and its properties.
struct Screen {
  std::FILE* out = stdout;  ///< Borrowed.
  bool terminal = false;    ///< True: redraw one line. False: print few plain lines.
  bool colour = false;
  int columns = 80;

  /// Returns standard output with its properties: a terminal of some width, or a pipe.
  static Screen standard_output();
};

/// Display of training progress: one line that is redrawn on a terminal, a plain line every few
/// seconds elsewhere.
///
///    step 150/300  ━━━━━━━━━╸──────────  loss 3.412  validation 3.520  12,345 tokens/s  0:31 left
///
/// Used by the driver's thread only. Borrows the clock.
class ProgressDisplay {
 public:
  /// `steps_done` is above 0 when a run resumes.
  ProgressDisplay(const Screen& screen, const Clock& clock, std::int64_t steps_done,
                  std::int64_t total_steps);
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;
  ~ProgressDisplay() { finish(); }

  void step(const StepMetrics& metrics);
  /// Returns the estimated time until the last step, at the average speed.
  double seconds_left() const { return seconds_left(last_step_); }
  /// Returns a moving average.
  double units_per_second() const { return units_per_second_; }
  /// Prints a line above the bar.
  void note(const std::string& text);
  /// Prints the last state and ends the bar's line. The destructor calls it again, without effect.
  void finish();

 private:
  std::string line(const StepMetrics& metrics, bool with_bar) const;
  double seconds_left(std::int64_t step) const;
  void draw(const std::string& text);

  const Screen screen_;
  const Clock& clock_;
  const std::int64_t total_steps_;
  std::int64_t last_step_;
  std::int64_t steps_seen_ = 0;
  double seconds_per_step_ = 0;  // moving average
  double units_per_second_ = 0;  // moving average
  double last_validation_ = 0;
  bool has_validation_ = false;
  TimePoint last_shown_;
  bool shown_ = false;
  bool on_bar_ = false;  // true if the cursor is on a drawn bar
  std::string pending_;  // newest line that the rate limit holds back
};

/// Prints a row of a run's description: "  model    4 layers, width 128".
void print_row(const Screen& screen, const char* what, const std::string& value);

/// Returns a number such as "12,345".
std::string with_thousands(double value);
/// Returns a duration such as "0:31", "12:05", "1:02:03".
std::string format_remaining(double seconds);

}  // namespace weft::apps
