#include "apps/run_files/progress_display.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/terminal.h"
#include "core/base/utf8.h"

namespace weft::apps {
namespace {

using namespace std::chrono_literals;

constexpr auto kRedrawEvery = 100ms;
constexpr auto kPlainLineEvery = 5s;
constexpr double kAverage = 0.1;  // weight of the newest step in moving averages

constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kPlain = "\x1b[0m";

std::string bar(double done, int width, bool colour) {
  const double cells = std::clamp(done, 0.0, 1.0) * width;
  const int full = static_cast<int>(cells);
  const bool half = cells - full >= 0.5 && full < width;
  std::string text = colour ? kGreen : "";
  for (int i = 0; i < full; ++i) text += "━";
  if (half) text += "╸";
  if (colour) text += std::string(kPlain) + kDim;
  for (int i = full + (half ? 1 : 0); i < width; ++i) text += "─";
  return colour ? text + kPlain : text;
}

}  // namespace

Screen Screen::standard_output() {
  Screen screen;
  const Terminal terminal = terminal_at(STDOUT_FILENO);
  screen.terminal = terminal.can_redraw_line;
  screen.colour = terminal.colour;
  screen.columns = terminal.columns;
  return screen;
}

void print_row(const Screen& screen, const char* what, const std::string& value) {
  const std::string line = fmt::format("  {}{:<9}{} {}", screen.colour ? "\x1b[2m" : "", what,
                                       screen.colour ? "\x1b[0m" : "", printable(value));
  std::fprintf(screen.out, "%s\n",
               screen.terminal ? wrap_lines(line, screen.columns, 10).c_str() : line.c_str());
  std::fflush(screen.out);
}

std::string with_thousands(double value) {
  const std::string digits = fmt::format("{:.0f}", std::abs(value));
  std::string text = value < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string format_remaining(double seconds) {
  const std::int64_t whole = std::lround(std::max(0.0, seconds));
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

ProgressDisplay::ProgressDisplay(const Screen& screen, const Clock& clock, std::int64_t steps_done,
                                 std::int64_t total_steps)
    : screen_(screen),
      clock_(clock),
      total_steps_(total_steps),
      last_step_(steps_done),
      last_shown_(clock.now()) {}

double ProgressDisplay::seconds_left(std::int64_t step) const {
  return (total_steps_ - step) * seconds_per_step_;
}

std::string ProgressDisplay::line(const StepMetrics& m, bool with_bar) const {
  std::string head =
      fmt::format("  step {:>{}}/{}", m.step, std::to_string(total_steps_).size(), total_steps_);
  std::string tail = fmt::format("  loss {:.3f}", m.loss);
  if (has_validation_) tail += fmt::format("  validation {:.3f}", last_validation_);
  tail += fmt::format("  {} {}/s", with_thousands(units_per_second_), m.unit);
  tail += m.step < total_steps_ ? fmt::format("  {} left", format_remaining(seconds_left(m.step)))
                                : "  done";
  if (!with_bar) return head + tail;
  const int width =
      std::min(40, screen_.columns - 1 - static_cast<int>(head.size() + tail.size()) - 2);
  if (width < 5) return (head + tail).substr(0, std::max(1, screen_.columns - 1));
  return head + "  " +
         bar(m.step / static_cast<double>(std::max<std::int64_t>(1, total_steps_)), width,
             screen_.colour) +
         tail;
}

void ProgressDisplay::draw(const std::string& text) {
  std::fprintf(screen_.out, "\r%s\x1b[K", text.c_str());
  std::fflush(screen_.out);
  on_bar_ = true;
}

void ProgressDisplay::step(const StepMetrics& m) {
  // The first step warms up caches and connections, so the second one replaces it.
  const bool replace = ++steps_seen_ <= 2;
  seconds_per_step_ =
      replace ? m.seconds : (1 - kAverage) * seconds_per_step_ + kAverage * m.seconds;
  units_per_second_ = replace ? m.units_per_second
                              : (1 - kAverage) * units_per_second_ + kAverage * m.units_per_second;
  if (m.validation_loss) {
    has_validation_ = true;
    last_validation_ = *m.validation_loss;
  }
  last_step_ = m.step;
  const TimePoint now = clock_.now();
  const auto every = screen_.terminal ? std::chrono::duration_cast<Nanoseconds>(kRedrawEvery)
                                      : Nanoseconds(kPlainLineEvery);
  const bool due =
      !shown_ || m.validation_loss || m.step == total_steps_ || now - last_shown_ >= every;
  pending_ = line(m, screen_.terminal);
  if (!due) return;
  if (screen_.terminal) {
    draw(pending_);
  } else {
    std::fprintf(screen_.out, "%s\n", pending_.c_str());
    std::fflush(screen_.out);
  }
  pending_.clear();
  last_shown_ = now;
  shown_ = true;
}

void ProgressDisplay::note(const std::string& text) {
  if (on_bar_) std::fputs("\r\x1b[K", screen_.out);
  const std::string shown = printable(text);
  std::fprintf(screen_.out, "%s\n",
               screen_.terminal ? wrap_lines(shown, screen_.columns, 2).c_str() : shown.c_str());
  std::fflush(screen_.out);
  on_bar_ = false;
}

void ProgressDisplay::finish() {
  if (screen_.terminal) {
    if (!pending_.empty()) draw(pending_);
    if (on_bar_) std::fputs("\n", screen_.out);
    on_bar_ = false;
  } else if (!pending_.empty()) {
    std::fprintf(screen_.out, "%s\n", pending_.c_str());
  }
  pending_.clear();
  std::fflush(screen_.out);
}

}  // namespace weft::apps
