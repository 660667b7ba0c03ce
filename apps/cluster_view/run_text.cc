#include "apps/cluster_view/run_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "actors/head/run_history.h"
#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

using actors::RunRecord;

constexpr double kFreshSeconds = 10;  // seconds

std::string step_text(const RunRecord& run) {
  if (!run.progress) return "-";
  return fmt::format("{}/{}", run.progress->step, run.progress->total_steps);
}

/// Returns true if the run keeps its folder: it has taken a step, is active, or is done.
bool keeps_its_folder(const RunRecord& run) {
  return run.progress || !run.ended() || run.state == actors::RunState::kDone;
}

/// Returns the folder of the results of runs[i], which a later run with the same folder may have
/// moved.
std::string results_of(const std::vector<RunRecord>& runs, std::size_t i) {
  for (std::size_t j = i + 1; j < runs.size(); ++j)
    if (runs[j].description.id() == runs[i].description.id() &&
        !runs[j].description.previous_run_path.empty() && keeps_its_folder(runs[j]))
      return runs[j].description.previous_run_path;
  return runs[i].description.out;
}

/// Returns `path` relative to `folder` if it is below it; "-" if it is empty.
std::string relative_to(const std::filesystem::path& folder, const std::string& path) {
  if (path.empty()) return "-";
  const std::string relative = std::filesystem::path(path).lexically_relative(folder).string();
  return relative.empty() || relative.starts_with("..") ? path : relative;
}

/// Converts a number to JSON; null if it is not finite.
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

}  // namespace

std::string progress_text(const actors::RunProgress& p, double progress_age_seconds) {
  std::string text = fmt::format("step {}/{}, loss {:.3f}, {:.0f} {}/s", p.step, p.total_steps,
                                 p.loss, p.units_per_second, p.unit);
  text += p.step < p.total_steps ? fmt::format(", {} left", format_seconds(p.seconds_left))
                                 : ", the last one is done";
  // Marks an old report: it may be stale, or a step may be long.
  if (progress_age_seconds > kFreshSeconds)
    text += fmt::format(" (reported {} ago)", format_seconds(progress_age_seconds));
  return text;
}

nlohmann::ordered_json progress_json(const actors::RunProgress& p) {
  return {{"step", p.step},
          {"total_steps", p.total_steps},
          {"loss", number(p.loss)},
          {p.unit + "_per_second", number(p.units_per_second)},
          {"seconds_left", number(p.seconds_left)}};
}

const RunRecord* look_up_run(const std::vector<RunRecord>& runs, const std::string& wanted) {
  const std::string name = wanted.starts_with("run ") ? wanted.substr(4) : wanted;
  const RunRecord* found = nullptr;
  for (const RunRecord& run : runs)  // oldest first
    if (run.name == name && (found == nullptr || found->ended() || !run.ended())) found = &run;
  for (const RunRecord& run : runs)
    if (found == nullptr && std::to_string(run.number) == name) found = &run;
  return found;
}

const RunRecord& find_run(const std::vector<RunRecord>& runs, const std::string& wanted) {
  if (const RunRecord* const found = look_up_run(runs, wanted)) return *found;
  const std::string name = wanted.starts_with("run ") ? wanted.substr(4) : wanted;
  std::set<std::string> names;
  for (const RunRecord& run : runs) names.insert(run.name);
  throw_error(ErrorCode::kNotFound,
              "this cluster has no run '{}'{}; weft runs lists those that "
              "there are",
              name, did_you_mean(name, {names.begin(), names.end()}));
}

std::string time_text(std::int64_t unix_ms) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(unix_ms / 1000));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string runs_text(const std::vector<RunRecord>& runs, std::int64_t now_unix_ms,
                      const std::filesystem::path& folder) {
  if (runs.empty()) return "no run yet; start one: weft run cluster.yaml --head HOST:PORT\n";
  std::size_t width = 4, steps = 5;
  for (const RunRecord& run : runs) {
    width = std::max(width, run.name.size());
    steps = std::max(steps, step_text(run).size());
  }
  const auto row = [&](const std::string& number, const std::string& name, std::string_view state,
                       const std::string& step, const std::string& loss, const std::string& began,
                       const std::string& time, const std::string& results) {
    return fmt::format("{:>3}  {:<{}}  {:<11}  {:<{}}  {:<6}  {:<14}  {:<8}  {}\n", number, name,
                       width, state, step, steps, loss, began, time, results);
  };
  std::string text = row("no.", "run", "state", "step", "loss", "began", "time", "results");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& run = runs[i];
    const std::int64_t until = run.ended_unix_ms == 0 ? now_unix_ms : run.ended_unix_ms;
    text += row(std::to_string(run.number), run.name, actors::to_string(run.state), step_text(run),
                run.progress ? fmt::format("{:.3f}", run.progress->loss) : "-",
                time_text(run.began_unix_ms).substr(5),
                format_seconds(static_cast<double>(until - run.began_unix_ms) / 1000),
                relative_to(folder, results_of(runs, i)));
    if (!run.reason.empty()) text += fmt::format("     {}\n", first_line(run.reason));
  }
  return text;
}

nlohmann::ordered_json runs_json(const std::vector<RunRecord>& runs) {
  auto list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& run = runs[i];
    nlohmann::ordered_json one = {{"number", run.number},
                                  {"name", run.name},
                                  {"state", actors::to_string(run.state)},
                                  {"pid", run.pid},
                                  {"machine", run.description.machine},
                                  {"out", results_of(runs, i)},
                                  {"started_by_host", run.description.agent},
                                  {"began_unix_ms", run.began_unix_ms},
                                  {"ended_unix_ms", nullptr},
                                  {"progress", nullptr},
                                  {"why", run.reason}};
    if (run.ended()) one["ended_unix_ms"] = run.ended_unix_ms;
    if (run.progress) one["progress"] = progress_json(*run.progress);
    auto devices = nlohmann::ordered_json::array();
    for (const actors::RunDevice& device : run.devices)
      devices.push_back({{"actor", device.label},
                         {"mesh", device.mesh.name},
                         {"epoch", device.mesh.epoch},
                         {"rank", device.rank},
                         {"host", device.place.host},
                         {"device", device.place.device == actors::kNoDevice
                                        ? nlohmann::ordered_json()
                                        : nlohmann::ordered_json(device.place.device)},
                         {"pid", device.pid}});
    one["devices"] = std::move(devices);
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace weft::apps
