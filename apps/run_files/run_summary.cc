#include "apps/run_files/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/run_files/progress_display.h"
#include "core/base/statistics.h"
#include "core/base/terminal.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

constexpr std::size_t kLastSteps = 10;  // steps averaged for "the last loss"
constexpr int kProseColumns = 104;

/// Adds a margin to each line.
std::string indented(const std::string& text, const std::string& margin) {
  std::string result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    result += margin + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return result;
}

/// Returns the mean of the finite losses among the last steps; NaN if there are none.
double mean_of_last_finite(const std::vector<StepMetrics>& steps) {
  double sum = 0, count = 0;
  for (std::size_t i = steps.size() - std::min(kLastSteps, steps.size()); i < steps.size(); ++i) {
    if (!std::isfinite(steps[i].loss)) continue;
    sum += steps[i].loss;
    ++count;
  }
  return sum / count;
}

/// Escape sequences for a screen; all empty without colours.
struct Style {
  explicit Style(bool colours) {
    if (!colours) return;
    bold = "\x1b[1m";
    dim = "\x1b[2m";
    green = "\x1b[32m";
    plain = "\x1b[0m";
  }

  std::string row(const char* what, const std::string& value) const {
    return fmt::format("  {}{:<17}{}{}\n", dim, what, plain, value);
  }
  std::string file(const std::string& name, const std::string& what) const {
    return fmt::format("    {:<17}{}{}{}\n", name, dim, what, plain);
  }

  std::string bold, dim, green, plain;
};

std::string headline(const RunSummary& s, const Style& style) {
  std::string text =
      fmt::format("\n{}{}{} {}: {} of {} steps in {}", style.bold, s.name, style.plain, s.outcome,
                  s.steps, s.total_steps, format_seconds(s.seconds));
  text += s.resumed_from > 0 ? fmt::format(", resumed from step {}\n\n", s.resumed_from) : "\n\n";
  return text;
}

std::string validation_loss(const RunSummary& s, const Style& style) {
  std::string value = fmt::format("{:.3f} -> {}{:.3f}{}", *s.first_validation_loss, style.bold,
                                  *s.last_validation_loss, style.plain);
  if (s.last_validation_step != s.steps)
    value += fmt::format(" after step {}", s.last_validation_step);
  if (s.baseline.loss > 0) {
    const double ahead = s.baseline.loss - *s.last_validation_loss;
    value += fmt::format("   ({} has {:.3f}: {}{}{})", s.baseline.name, s.baseline.loss,
                         ahead > 0 ? style.green : "",
                         ahead > 0 ? fmt::format("beaten by {:.3f}", ahead) : "not beaten yet",
                         style.plain);
  }
  return value;
}

std::string loss_rows(const RunSummary& s, const Style& style) {
  std::string text = style.row(
      "training loss", fmt::format("{:.3f} -> {:.3f}{}", s.first_loss, s.last_loss,
                                   s.steps > 1 ? "   (mean of the last steps, at most 10)" : ""));
  if (s.last_validation_loss) text += style.row("validation loss", validation_loss(s, style));
  if (s.best_validation_loss && s.best_validation_step != s.last_validation_step)
    text += style.row(
        "best validation",
        fmt::format("{:.3f} after step {}", *s.best_validation_loss, s.best_validation_step));
  if (s.skipped_updates > 0)
    text += style.row("updates skipped", fmt::format("{} of {}: their gradients were not finite",
                                                     s.skipped_updates, s.steps));
  return text;
}

std::string speed_rows(const RunSummary& s, const Style& style) {
  std::string text =
      style.row("speed", fmt::format("{} {}/s", with_thousands(s.units_per_second), s.unit));
  if (s.resharded_bytes > 0)
    text +=
        style.row("resharded", fmt::format("{} between meshes", format_bytes(s.resharded_bytes)));
  if (const auto hidden = s.hidden_share())
    text += style.row(
        "transfers", fmt::format("devices waited {} ({} of transfers, {:.0f} % during computation)",
                                 format_seconds(s.exposed_transfer_seconds),
                                 format_seconds(s.transfer_seconds), *hidden * 100));
  return text;
}

/// Lists the run's files.
std::string file_list(const RunSummary& s, const RunDirectory& directory, const Style& style) {
  const auto here = std::filesystem::relative(directory.path()).string();
  const std::string folder = here.starts_with("..") ? directory.path().string() : here;
  std::string text = fmt::format("\n  {}/\n", folder);
  text += style.file("metrics.jsonl", "a JSON object a step");
  text += style.file("summary.json", "the numbers above");
  text += style.file("loss.svg", "the losses, drawn");
  text += style.file("timeline.svg", "one step, drawn: compute and transfers of every device");
  text += style.file("trace.json", "the same as a trace: open it at ui.perfetto.dev");
  for (const auto& [name, what] : s.report.files) text += style.file(name, what);
  if (std::filesystem::exists(directory.best()))
    text += style.file(directory.best().filename(),
                       "the parameters of the step with the least validation loss");
  if (s.checkpoint_step > 0) {
    const std::string more = s.steps < s.total_steps
                                 ? fmt::format("; go on with --set checkpoint.resume={}", folder)
                                 : "";
    text += style.file("checkpoints/",
                       fmt::format("the last one after step {}{}", s.checkpoint_step, more));
  }
  // On a cluster that another user started, the logs are on the hosts.
  const bool has_logs = std::filesystem::is_directory(directory.logs()) &&
                        !std::filesystem::is_empty(directory.logs());
  return has_logs ? text + style.file("logs/", "logs of all processes")
                  : text + fmt::format("\n  logs of its processes: weft logs {}\n", s.name);
}

}  // namespace

std::optional<double> RunSummary::hidden_share() const {
  if (transfer_seconds <= 0) return std::nullopt;
  return std::clamp(1 - exposed_transfer_seconds / transfer_seconds, 0.0, 1.0);
}

void summarize(const std::vector<StepMetrics>& steps, RunSummary& summary) {
  if (steps.empty()) return;
  summary.steps = steps.back().step;
  summary.first_loss = steps.front().loss;
  summary.last_loss = mean_of_last_finite(steps);
  summary.skipped_updates = std::ranges::count(steps, true, &StepMetrics::update_skipped);
  summary.first_validation_loss.reset();
  summary.best_validation_loss.reset();
  summary.best_validation_step = 0;
  summary.seconds = summary.transfer_seconds = summary.exposed_transfer_seconds = 0;
  summary.resharded_bytes = 0;
  std::vector<double> speeds;
  for (const StepMetrics& m : steps) {
    if (m.validation_loss) {
      if (!summary.first_validation_loss) summary.first_validation_loss = m.validation_loss;
      if (std::isfinite(*m.validation_loss) &&
          !(summary.best_validation_loss && *summary.best_validation_loss <= *m.validation_loss)) {
        summary.best_validation_loss = m.validation_loss;
        summary.best_validation_step = m.step;
      }
      summary.last_validation_loss = m.validation_loss;
      summary.last_validation_step = m.step;
    }
    if (m.step <= summary.resumed_from) continue;
    speeds.push_back(m.units_per_second);
    summary.unit = m.unit;
    summary.seconds += m.seconds;
    summary.transfer_seconds += m.transfer_seconds;
    summary.exposed_transfer_seconds += m.exposed_transfer_seconds;
    summary.resharded_bytes += m.resharded_bytes;
  }
  summary.units_per_second = median(std::move(speeds));
}

std::string to_json(const RunSummary& s) {
  const auto number = [](std::optional<double> value) {
    return value && std::isfinite(*value) ? nlohmann::ordered_json(*value)
                                          : nlohmann::ordered_json();
  };
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  for (const auto& [name, value] : s.report.figures) figures[name] = number(value);
  const nlohmann::ordered_json json = {
      {"name", s.name},
      {"app", s.app},
      {"outcome", s.outcome},
      {"steps", s.steps},
      {"total_steps", s.total_steps},
      {"resumed_from", s.resumed_from},
      {"parameters", s.parameters},
      {"seconds", s.seconds},
      {"seconds_to_first_step", s.seconds_to_first_step},
      {"first_loss", number(s.first_loss)},
      {"last_loss", number(s.last_loss)},
      {"first_validation_loss", number(s.first_validation_loss)},
      {"last_validation_loss", number(s.last_validation_loss)},
      {"best_validation_loss", number(s.best_validation_loss)},
      {"best_validation_step", s.best_validation_step},
      {"skipped_updates", s.skipped_updates},
      {"baseline_loss", s.baseline.loss > 0 ? number(s.baseline.loss) : number({})},
      {"baseline", s.baseline.name},
      {s.unit + "_per_second", s.units_per_second},
      {"resharded_bytes", s.resharded_bytes},
      {"transfer_seconds", s.transfer_seconds},
      {"exposed_transfer_seconds", s.exposed_transfer_seconds},
      {"hidden_transfer_share", number(s.hidden_share())},
      {"recoveries", s.recoveries},
      {"checkpoint_step", s.checkpoint_step},
      {"checkpoint_seconds", s.checkpoint_seconds},
      {"figures", figures},
      {"sample", s.report.text}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string summary_screen(const RunSummary& s, const RunDirectory& directory, bool colours,
                           std::optional<int> columns) {
  const Style style(colours);
  std::string text = headline(s, style) + loss_rows(s, style) + speed_rows(s, style);
  if (!s.report.text.empty()) {
    const std::string report = indented(s.report.text, "    ");
    text += fmt::format(
        "\n  {}{}:{}\n{}", style.dim, s.report.title, style.plain,
        s.report.prose ? wrap_lines(report, columns.value_or(kProseColumns), 0) : report);
  }
  text += file_list(s, directory, style);
  return columns ? wrap_lines(text, *columns, 2) : text;
}

}  // namespace weft::apps
