// weft schedule show|check|simulate|compare|draw.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/schedule_report.h"
#include "apps/cli/timeline_drawing.h"
#include "apps/cli/timeline_text.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"

namespace weft::apps {
namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }
/// Prints text for users. Wrapped lines are aligned with the first action after "actor 0: ".
void print_fitted(const std::string& text) { print(wrapped_for_terminal(STDOUT_FILENO, text, 9)); }

TimelineStyle style_of_screen() {
  TimelineStyle style;
  const Terminal terminal = terminal_at(STDOUT_FILENO);
  style.colour = terminal.colour;
  if (::isatty(STDOUT_FILENO) == 1) style.columns = terminal.columns;
  return style;
}

/// Prints one JSON document: an object for one schedule, a list for several.
void print_json(std::vector<nlohmann::json> documents) {
  print(
      (documents.size() == 1 ? std::move(documents.front()) : nlohmann::json(std::move(documents)))
          .dump(2) +
      "\n");
}

int check_all(const ScheduleOptions& options, const std::vector<ScheduleCase>& cases) {
  bool all_hold = true;
  std::vector<nlohmann::json> documents;
  for (const ScheduleCase& one : cases) {
    const mesh::ScheduleReport report = mesh::check_schedule(one.schedule, one.costs, one.limits);
    all_hold = all_hold && report.holds();
    if (options.json) documents.push_back(check_json(one, report));
    else print_fitted(describe_check(one, report));
  }
  if (options.json) print_json(std::move(documents));
  return all_hold ? 0 : 1;
}

int show_all(const ScheduleOptions& options, const std::vector<ScheduleCase>& cases) {
  std::vector<nlohmann::json> documents;
  for (const ScheduleCase& one : cases) {
    if (options.json) documents.push_back(schedule_json(one));
    else if (options.csv) print(mesh::write_schedule(one.schedule, one.costs.stage_edges()));
    else print_fitted(describe_schedule(one));
  }
  if (options.json) print_json(std::move(documents));
  return 0;
}

/// Returns the query, with all schedules if `compare` names none.
ScheduleQuery with_schedules(const ScheduleOptions& options) {
  ScheduleQuery query = options.request;
  if (!query.schedules.empty()) return query;
  if (options.action != ScheduleAction::kCompare) {
    throw_error(ErrorCode::kInvalidArgument,
                "which schedule? A file, auto, or one of {}; for example: weft schedule draw "
                "zb-h1 auto --stages 4",
                fmt::join(mesh::schedule_names(), ", "));
  }
  query.schedules = mesh::schedule_names();
  query.schedules.emplace_back("auto");
  return query;
}

void print_comparison(const ScheduleOptions& options, const std::vector<ScheduleCase>& cases,
                      const std::vector<mesh::ScheduleSimulation>& simulations) {
  if (options.json) print(comparison_json(cases, simulations).dump(2) + "\n");
  else print_fitted(describe_comparison(cases, simulations));
}

/// Prints the simulations one after the other: as JSON, as text (simulate) or as a timeline (draw).
void print_simulations(const ScheduleOptions& options, const std::vector<ScheduleCase>& cases,
                       const std::vector<mesh::ScheduleSimulation>& simulations) {
  if (options.json) {
    std::vector<nlohmann::json> documents;
    for (std::size_t i = 0; i < cases.size(); ++i)
      documents.push_back(simulation_json(cases[i], simulations[i]));
    return print_json(std::move(documents));
  }
  const TimelineStyle style = style_of_screen();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (i > 0) print("\n");
    if (options.action == ScheduleAction::kSimulate)
      print_fitted(describe_simulation(cases[i], simulations[i]));
    else
      print(fmt::format("{}: makespan {:.6g}, bubble {:.1f} %\n{}\n", cases[i].label,
                        simulations[i].makespan, 100 * simulations[i].bubble_rate(),
                        wrap_lines(cases[i].settings, style.columns, 2)) +
            draw_timeline(cases[i], simulations[i], style));
  }
}

}  // namespace

int run_schedule(const ScheduleOptions& options) {
  const std::vector<ScheduleCase> cases = parse_schedule_query(with_schedules(options));
  if (options.action == ScheduleAction::kShow) return show_all(options, cases);
  if (options.action == ScheduleAction::kCheck) return check_all(options, cases);

  std::vector<mesh::ScheduleSimulation> simulations;
  for (const ScheduleCase& one : cases) {
    mesh::SimulationOptions simulation = one.options;
    simulation.details = options.action != ScheduleAction::kCompare || !options.svg.empty();
    simulations.push_back(mesh::simulate(one.schedule, one.costs, simulation));
  }
  if (options.action == ScheduleAction::kCompare) print_comparison(options, cases, simulations);
  else print_simulations(options, cases, simulations);
  if (options.svg.empty()) return 0;
  draw_schedules(cases, simulations).write(options.svg);
  if (!options.json) say(stdout, "drawn in {}\n", options.svg);
  return 0;
}

}  // namespace weft::apps
