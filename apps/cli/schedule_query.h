#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/schedule/check.h"
#include "mesh/schedule/schedule.h"
#include "mesh/schedule/simulate.h"

namespace weft::apps {

/// Schedules and assumptions on model and machine, as typed by a user: `1f1b mine.csv auto --stages
/// 4 --microbatches 8 --times 1,1,1 --transfer 0.5 --memory 6`. Times and memory have arbitrary but
/// consistent units.
struct ScheduleQuery {
  std::vector<std::string> schedules;  ///< Names, "auto", or files.
  int stages = 4;                      ///< Actors. Each has one stage, or several smaller ones.
  int microbatches = 8;
  int chunks = 0;
  int group = 0;
  /// F,I,W of each actor, or a triple per stage, separated by ';'.
  std::string times = "1,1,1";
  std::string transfer = "0";      ///< Time per microbatch and edge, each way; or one per edge.
  std::vector<std::string> skips;  ///< "FROM-TO", "FROM-TO:TIME", "FROM-TO:TIME:MEMORY".
  double activations = 1;          ///< Memory of a stage's activations for one microbatch.
  double weight_part = 1;          ///< Share of the activations that W needs.
  std::uint64_t tensor = 0;        ///< Memory of the tensor between two stages.
  /// Vocabulary shared by all actors: "S,T", "S,T,1", "S,T,2" or "S,T,interlaced", with the times
  /// of its passes on each actor and the barriers (1: vocab-2). Empty: none.
  std::string vocabulary;
  /// "off": without compounds; "halves": each microbatch in two halves, of half the costs; "cross":
  /// forwards and backwards in pairs. Empty: the schedule's own compounds.
  std::string duplex;
  std::string memory;            ///< Memory limit of all actors, or one each; empty: none.
  std::optional<double> bubble;  ///< Largest accepted bubble, in percent.
  double dispatch_time = 0;
  bool share_nics = false;
  int credits = 0;
};

/// Schedule with its costs, limits and simulation options.
struct ScheduleCase {
  std::string label;     ///< Name as typed.
  std::string settings;  ///< Text such as "4 actors, 8 microbatches, F,I,W 1,1,1, transfer 0.5".
  /// Remark: the summary of a named schedule, the search result of `auto`, or changes to a file's
  /// schedule.
  std::string note;
  mesh::Schedule schedule;
  int microbatches = 0;  ///< Microbatches of a step; `schedule` has twice as many with halves.
  mesh::ScheduleCosts costs;
  mesh::ScheduleLimits limits;
  mesh::SimulationOptions options;
};

/// Builds, reads or searches every schedule of the request. Throws Error(kInvalidArgument) with the
/// option or the schedule (and the nearest name), or Error(kInvalidConfig) with the place in a
/// file.
std::vector<ScheduleCase> parse_schedule_query(const ScheduleQuery& request);

}  // namespace weft::apps
