#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/schedule/check.h"
#include "mesh/schedule/schedule.h"
#include "mesh/schedule/simulate.h"

namespace weft::apps {

/// Schedules and what to assume of model and machine, as a person types them:
/// `1f1b mine.csv auto --stages 4 --microbatches 8 --times 1,1,1 --transfer 0.5 --memory 6`.
/// Times and memory are in any unit, as long as it is one.
struct ScheduleQuery {
  std::vector<std::string> schedules;  ///< Names, "auto", or files.
  int stages = 4;                      ///< Actors; one stage each, or several smaller ones.
  int microbatches = 8;
  int chunks = 0;
  int group = 0;
  /// F,I,W of each actor's stage, or one triple per stage with ';' between.
  std::string times = "1,1,1";
  std::string transfer = "0";      ///< Per microbatch and edge, each way; or one per edge.
  std::vector<std::string> skips;  ///< "FROM-TO", "FROM-TO:TIME", "FROM-TO:TIME:MEMORY".
  double activations = 1;          ///< Memory of a stage's activations for one microbatch.
  double weight_part = 1;          ///< The part of it that W needs.
  std::uint64_t tensor = 0;        ///< Memory of the tensor that one stage hands to the next.
  /// "S,T", "S,T,1", "S,T,2" or "S,T,interlaced": a vocabulary over all actors, the times of its
  /// passes on each, and the barriers (1: vocab-2); empty: none.
  std::string vocabulary;
  std::string memory;            ///< Cap of every actor, or one each; empty: none.
  std::optional<double> bubble;  ///< Most allowed, in percent.
  double per_action = 0;
  double pair_time = 0;
  bool share_nics = false;
  int credits = 0;
};

/// A schedule with all that the other functions of this module ask for. A value.
struct ScheduleCase {
  std::string label;     ///< As typed.
  std::string settings;  ///< "4 actors, 8 microbatches, F,I,W 1,1,1, transfer 0.5".
  /// What it is: the summary of a named schedule, what `auto` found, what a file lacked.
  std::string note;
  mesh::Schedule schedule;
  mesh::ScheduleCosts costs;
  mesh::ScheduleLimits limits;
  mesh::SimulationOptions options;
};

/// Builds, reads or searches every schedule of the request. Throws Error(kInvalidArgument) that
/// names the option or the schedule (with the nearest name), or Error(kInvalidConfig) with the
/// place in a file.
std::vector<ScheduleCase> parse_schedule_query(const ScheduleQuery& request);

}  // namespace weft::apps
