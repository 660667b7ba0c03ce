#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/cli/schedule_query.h"

namespace weft::apps {

/// The orders, one line per actor, with what the schedule is.
std::string describe_schedule(const ScheduleCase& one);
nlohmann::json schedule_json(const ScheduleCase& one);

/// The ten properties, each with where it fails or the number behind it, and how the schedule fares
/// on other kinds of channels.
std::string describe_check(const ScheduleCase& one, const mesh::ScheduleReport& report);
nlohmann::json check_json(const ScheduleCase& one, const mesh::ScheduleReport& report);

/// Makespan, bubbles, memory, exposed transfers, actor by actor, and what the critical path is made
/// of.
std::string describe_simulation(const ScheduleCase& one,
                                const mesh::ScheduleSimulation& simulation);
/// The same with every action and transfer.
nlohmann::json simulation_json(const ScheduleCase& one, const mesh::ScheduleSimulation& simulation);

/// A line per schedule, the fastest that fits marked.
std::string describe_comparison(const std::vector<ScheduleCase>& cases,
                                const std::vector<mesh::ScheduleSimulation>& simulations);
nlohmann::json comparison_json(const std::vector<ScheduleCase>& cases,
                               const std::vector<mesh::ScheduleSimulation>& simulations);

}  // namespace weft::apps
