#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/cli/schedule_query.h"

namespace weft::apps {

/// Describes a schedule and the order of actions, one line per actor.
std::string describe_schedule(const ScheduleCase& one);
nlohmann::json schedule_json(const ScheduleCase& one);

/// Lists the ten properties, each with its violation or value, and the buffers that other kinds of
/// channels need.
std::string describe_check(const ScheduleCase& one, const mesh::ScheduleReport& report);
nlohmann::json check_json(const ScheduleCase& one, const mesh::ScheduleReport& report);

/// Describes makespan, bubbles, exposed transfers and memory, in total and per actor, and the
/// composition of the critical path.
std::string describe_simulation(const ScheduleCase& one,
                                const mesh::ScheduleSimulation& simulation);
/// Returns the same with every action and transfer.
nlohmann::json simulation_json(const ScheduleCase& one, const mesh::ScheduleSimulation& simulation);

/// Returns a line per schedule. Marks the fastest that fits.
std::string describe_comparison(const std::vector<ScheduleCase>& cases,
                                const std::vector<mesh::ScheduleSimulation>& simulations);
nlohmann::json comparison_json(const std::vector<ScheduleCase>& cases,
                               const std::vector<mesh::ScheduleSimulation>& simulations);

}  // namespace weft::apps
