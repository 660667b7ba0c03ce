#include "apps/cli/schedule_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace weft::apps {
namespace {

using mesh::ScheduleSimulation;

std::string heading(const ScheduleCase& one) {
  const mesh::Schedule& schedule = one.schedule;
  return fmt::format("{}: {} actors, {} stages, {} microbatches{}\n  {}\n", one.label,
                     schedule.actors.size(), schedule.stages, one.microbatches,
                     one.microbatches == schedule.microbatches ? "" : " in halves", one.note);
}

nlohmann::json head_json(const ScheduleCase& one) {
  return {{"schedule", one.label},
          {"note", one.note},
          {"stages", one.schedule.stages},
          {"microbatches", one.schedule.microbatches},
          {"actor_of_stage", one.schedule.actor_of_stage}};
}

bool fits(const ScheduleCase& one, const ScheduleSimulation& simulation) {
  for (std::size_t actor = 0; actor < one.limits.memory_of_actor.size(); ++actor) {
    if (simulation.actors[actor].peak > one.limits.memory_of_actor[actor] * (1 + 1e-9))
      return false;
  }
  return true;
}

/// Returns the time on the critical path by kind of work: "F 8, I 8, W 8, transfers 3".
std::vector<std::pair<std::string, double>> path_parts(const ScheduleSimulation& simulation) {
  std::vector<std::pair<std::string, double>> parts;
  const auto add = [&](const std::string& name, double time) {
    if (time <= 0) return;
    const auto found = std::ranges::find(parts, name, &std::pair<std::string, double>::first);
    if (found == parts.end()) parts.emplace_back(name, time);
    else found->second += time;
  };
  double covered = 0;
  for (const ScheduleSimulation::PathStep& step : simulation.critical_path) {
    const std::size_t index = step.index;
    if (step.transfer) {
      const mesh::SimulatedTransfer& one = simulation.transfers[index];
      add("transfers", one.end - std::max(covered, one.start));
      covered = std::max(covered, one.end);
    } else {
      const mesh::SimulatedAction& one = simulation.actors[step.actor].actions[index];
      if (one.start > covered + 1e-9 * simulation.makespan) {
        add("vocabulary transfers", one.start - covered);
        covered = one.start;
      }
      add(std::string(to_string(one.action.kind)), one.end - std::max(covered, one.start));
      covered = std::max(covered, one.end);
    }
  }
  return parts;
}

}  // namespace

std::string describe_schedule(const ScheduleCase& one) {
  std::string text = heading(one);
  text += fmt::format("  stages on actors: {}\n", fmt::join(one.schedule.actor_of_stage, " "));
  text += to_string(one.schedule);
  std::map<mesh::ActionKind, mesh::Action> examples;
  for (const auto& actions : one.schedule.actors)
    for (const mesh::Action& action : actions) examples.emplace(action.kind, action);
  if (examples.empty()) return text;
  const mesh::Action& first = examples.begin()->second;
  text += fmt::format("  {} is stage {}, {} of microbatch {}; ", to_string(first), first.stage,
                      name_in_words(first.kind), first.microbatch);
  std::vector<std::string> kinds;
  for (const auto& [kind, example] : examples)
    kinds.push_back(fmt::format("{} {}", to_string(kind), name_in_words(kind)));
  text += fmt::format("{}\n", fmt::join(kinds, ", "));
  return text;
}

nlohmann::json schedule_json(const ScheduleCase& one) {
  nlohmann::json json = head_json(one);
  json["actors"] = nlohmann::json::array();
  for (const auto& actions : one.schedule.actors) {
    nlohmann::json row = nlohmann::json::array();
    for (const mesh::Action& action : actions) {
      row.push_back({{"action", to_string(action)},
                     {"stage", action.stage},
                     {"kind", std::string(to_string(action.kind))},
                     {"microbatch", action.microbatch},
                     {"joins_previous", action.joins_previous}});
    }
    json["actors"].push_back(std::move(row));
  }
  for (const mesh::EdgeCosts& edge : one.costs.edges) {
    json["edges"].push_back(
        {{"from", edge.edge.from}, {"to", edge.edge.to}, {"bytes", edge.edge.bytes}});
  }
  return json;
}

std::string describe_check(const ScheduleCase& one, const mesh::ScheduleReport& report) {
  std::string text = heading(one);
  for (const mesh::Finding& finding : report.findings) {
    const char* verdict = !finding.holds ? " ?  " : *finding.holds ? "ok  " : "NO  ";
    text += fmt::format("  {}{:<20} {}\n", verdict, to_string(finding.property), finding.detail);
  }
  if (report.channels.empty()) return text;
  text += "  if receives stood just before their use, tensors to buffer per edge and direction:\n";
  for (const mesh::ChannelFinding& channel : report.channels) {
    text += fmt::format("      {:<24} {}\n", to_string(channel.model),
                        channel.buffers ? fmt::format("{}", *channel.buffers)
                                        : "no number helps: " + channel.cycle);
  }
  return text;
}

nlohmann::json check_json(const ScheduleCase& one, const mesh::ScheduleReport& report) {
  nlohmann::json json = head_json(one);
  json["valid"] = report.holds();
  for (const mesh::Finding& finding : report.findings) {
    nlohmann::json entry = {{"property", std::string(to_string(finding.property))},
                            {"detail", finding.detail}};
    entry["holds"] = finding.holds ? nlohmann::json(*finding.holds) : nlohmann::json();
    json["properties"].push_back(std::move(entry));
  }
  for (const mesh::ChannelFinding& channel : report.channels) {
    nlohmann::json entry = {{"channels", std::string(to_string(channel.model))},
                            {"cycle", channel.cycle}};
    entry["buffers"] = channel.buffers ? nlohmann::json(*channel.buffers) : nlohmann::json();
    json["channels"].push_back(std::move(entry));
  }
  return json;
}

std::string describe_simulation(const ScheduleCase& one, const ScheduleSimulation& simulation) {
  std::string text = heading(one);
  text += fmt::format(
      "  makespan        {:.6g}\n  bubble          {:.6g} ({:.2f} % of the makespan)\n  span "
      "bubble     {:.6g}\n",
      simulation.makespan, simulation.makespan_bubble, 100 * simulation.bubble_rate(),
      simulation.span_bubble);
  text += fmt::format(
      "  exposed         {:.6g} of transfers, mean over actors\n  peak memory     {:.6g}{}\n",
      simulation.exposed_transfer_time, simulation.peak(),
      fits(one, simulation) ? "" : "  does NOT fit");
  text += "  critical path   ";
  const char* separator = "";
  for (const auto& [name, time] : path_parts(simulation)) {
    text += fmt::format("{}{} {:.6g}", separator, name, time);
    separator = ", ";
  }
  text += "\n\n  actor       work       idle    exposed       peak\n";
  for (std::size_t actor = 0; actor < simulation.actors.size(); ++actor) {
    const mesh::SimulatedActor& each = simulation.actors[actor];
    text += fmt::format("  {:>5} {:>10.6g} {:>10.6g} {:>10.6g} {:>10.6g}{}\n", actor, each.work,
                        simulation.makespan - each.work, each.exposed_transfer_time, each.peak,
                        one.limits.memory_of_actor.empty() ||
                                each.peak <= one.limits.memory_of_actor[actor] * (1 + 1e-9)
                            ? ""
                            : fmt::format("  over {:.6g}", one.limits.memory_of_actor[actor]));
  }
  return text;
}

nlohmann::json simulation_json(const ScheduleCase& one, const ScheduleSimulation& simulation) {
  nlohmann::json json = head_json(one);
  json["makespan"] = simulation.makespan;
  json["makespan_bubble"] = simulation.makespan_bubble;
  json["bubble_rate"] = simulation.bubble_rate();
  json["span_bubble"] = simulation.span_bubble;
  json["exposed_transfer"] = simulation.exposed_transfer_time;
  json["peak_memory"] = simulation.peak();
  json["fits"] = fits(one, simulation);
  for (const mesh::SimulatedActor& actor : simulation.actors) {
    nlohmann::json entry = {{"work", actor.work},
                            {"exposed_transfer", actor.exposed_transfer_time},
                            {"peak_memory", actor.peak}};
    for (const mesh::SimulatedAction& action : actor.actions) {
      entry["actions"].push_back(
          {{"action", to_string(action.action)}, {"start", action.start}, {"end", action.end}});
    }
    for (const MemoryLevel& level : actor.memory)
      entry["memory"].push_back({level.time, level.held});
    json["actors"].push_back(std::move(entry));
  }
  json["transfers"] = nlohmann::json::array();
  for (const mesh::SimulatedTransfer& transfer : simulation.transfers) {
    const mesh::StageEdge& edge = one.costs.edges[transfer.edge].edge;
    json["transfers"].push_back({{"from_stage", transfer.backward ? edge.to : edge.from},
                                 {"to_stage", transfer.backward ? edge.from : edge.to},
                                 {"microbatch", transfer.microbatch},
                                 {"from_actor", transfer.from_actor},
                                 {"to_actor", transfer.to_actor},
                                 {"start", transfer.start},
                                 {"end", transfer.end}});
  }
  for (const auto& [name, time] : path_parts(simulation)) json["critical_path"][name] = time;
  return json;
}

std::string describe_comparison(const std::vector<ScheduleCase>& cases,
                                const std::vector<ScheduleSimulation>& simulations) {
  std::size_t width = 8;
  double best = -1;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    width = std::max(width, cases[i].label.size());
    if (fits(cases[i], simulations[i]) && (best < 0 || simulations[i].makespan < best))
      best = simulations[i].makespan;
  }
  std::string text =
      fmt::format("{:<{}} makespan  bubble      %    span exposed  memory\n", "schedule", width);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const ScheduleSimulation& one = simulations[i];
    const bool enough = fits(cases[i], one);
    text +=
        fmt::format("{:<{}} {:>8.6g} {:>7.6g} {:>6.2f} {:>7.6g} {:>7.6g} {:>7.6g}{}\n",
                    cases[i].label, width, one.makespan, one.makespan_bubble,
                    100 * one.bubble_rate(), one.span_bubble, one.exposed_transfer_time, one.peak(),
                    !enough                              ? "  does not fit"
                    : one.makespan <= best * (1 + 1e-12) ? "  *"
                                                         : "");
  }
  return text + "* the fastest that fits\n";
}

nlohmann::json comparison_json(const std::vector<ScheduleCase>& cases,
                               const std::vector<ScheduleSimulation>& simulations) {
  nlohmann::json json = nlohmann::json::array();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const ScheduleSimulation& one = simulations[i];
    nlohmann::json entry = head_json(cases[i]);
    entry.update({{"makespan", one.makespan},
                  {"makespan_bubble", one.makespan_bubble},
                  {"bubble_rate", one.bubble_rate()},
                  {"span_bubble", one.span_bubble},
                  {"exposed_transfer", one.exposed_transfer_time},
                  {"peak_memory", one.peak()},
                  {"fits", fits(cases[i], one)}});
    json.push_back(std::move(entry));
  }
  return json;
}

}  // namespace weft::apps
