#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "apps/run_files/metrics.h"
#include "core/base/clock.h"

namespace weft::apps {

/// Where progress is shown.
struct Screen {
  std::FILE* out = stdout;  ///< Borrowed.
  bool terminal = false;    ///< Redraw one line; else plain lines, few.
  bool colour = false;
  int columns = 80;

  /// Standard output: a terminal, with its width, or a pipe.
  static Screen standard_output();
};

/// Shows how training goes on: on a terminal one line that is redrawn, elsewhere a plain line every
/// few seconds.
///
///    step 150/300  ━━━━━━━━━╸──────────  loss 3.412  validation 3.520  12,345 tokens/s  0:31 left
///
/// The driver's thread only. Borrows the clock.
class ProgressDisplay {
 public:
  /// `steps_done` is not 0 when a run resumes.
  ProgressDisplay(const Screen& screen, const Clock& clock, std::int64_t steps_done,
                  std::int64_t total_steps);
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;
  ~ProgressDisplay() { finish(); }

  void step(const StepMetrics& metrics);
  /// Until the last step, at the speed of the last ones.
  double seconds_left() const { return seconds_left(last_step_); }
  /// Moving average.
  double units_per_second() const { return units_per_second_; }
  /// A line of its own, above the bar.
  void note(const std::string& text);
  /// Leaves the last state on the screen and gives it back to others. Called once more by the
  /// destructor, to no effect.
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
  bool on_bar_ = false;  // the cursor stands on a drawn bar
  std::string pending_;  // the newest plain line, while it is too early to print it
};

/// A line of what a run is, beneath each other: "  model    4 layers, width 128".
void print_row(const Screen& screen, const char* what, const std::string& value);

/// "12,345".
std::string with_thousands(double value);
/// "0:31", "12:05", "1:02:03".
std::string format_remaining(double seconds);

}  // namespace weft::apps
