#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/schedule/schedule.h"
#include "mesh/schedule/vocabulary.h"

namespace weft::mesh {

/// Placement of stages on p actors.
enum class StagePlacement : std::uint8_t {
  kOnePerActor,  ///< Stage s on actor s.
  kLooped,       ///< Stage s on actor s mod p.
  /// Stages 0 .. p-1 on actors 0 .. p-1, then p .. 2p-1 in reverse: two stages per actor.
  kVShaped,
};

/// Returns the actor of each stage if each of `actors` has `chunks` stages.
std::vector<int> place_stages(StagePlacement placement, int actors, int chunks);

/// Parameters of a named schedule. A value.
struct ScheduleRequest {
  std::string name;
  int actors = 1;
  int microbatches = 1;
  int chunks = 0;  ///< Stages per actor; 0: the schedule's default.
  /// Consecutive microbatches of a chunk in interleaved-1f1b; 0: about the number of actors.
  int group = 0;
  /// Vocabulary passes, added by with_vocabulary(); kInterlaced only with 1f1b.
  VocabularyMode vocabulary = VocabularyMode::kLast;
  VocabularyTimes vocabulary_times = {};
};

/// Entry of the list of named schedules.
struct NamedSchedule {
  std::string_view name;
  std::string_view summary;  ///< One line, without the name.
  StagePlacement placement = StagePlacement::kOnePerActor;
  int chunks = 1;           ///< Default number of stages per actor.
  bool any_chunks = false;  ///< True if a request may set another number of stages per actor.
  Schedule (*make)(const ScheduleRequest&);
};

/// Returns all named schedules, in display order. A new one is a function in a file of its own and
/// a line here.
std::span<const NamedSchedule> named_schedules();
std::vector<std::string> schedule_names();
/// Returns the names of schedules whose default is one stage per actor.
std::vector<std::string> one_stage_schedule_names();
/// Finds a named schedule. Throws Error(kInvalidArgument) that suggests the nearest name.
const NamedSchedule& find_named_schedule(std::string_view name);

/// Builds a named schedule. Backwards run in microbatch order on every stage, so that all schedules
/// sum gradients in the same order. Throws Error(kInvalidArgument) for an unknown name (with the
/// nearest), a count below 1, or chunks or a vocabulary that the schedule does not support.
Schedule make_schedule(const ScheduleRequest& request);
/// Builds a named schedule for a total number of stages, which must be a multiple of its chunks.
Schedule make_schedule(std::string_view name, int stages, int microbatches);

/// Returns a schedule for validation: forwards only, in microbatch order, one stage per actor.
Schedule make_forward_schedule(int stages, int microbatches);

}  // namespace weft::mesh
