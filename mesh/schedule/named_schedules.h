#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/schedule/schedule.h"
#include "mesh/schedule/vocabulary.h"

namespace weft::mesh {

/// Which stage lies on which of p actors.
enum class StagePlacement : std::uint8_t {
  kOnePerActor,  ///< Stage s on actor s.
  kLooped,       ///< Stage s on actor s mod p.
  kVShaped,      ///< 0 .. p-1, then back p-1 .. 0: two stages on each actor.
};

/// The actor of each stage when every one of `actors` has `chunks` stages.
std::vector<int> place_stages(StagePlacement placement, int actors, int chunks);

/// What a named schedule is asked for. A value.
struct ScheduleRequest {
  std::string name;
  int actors = 1;
  int microbatches = 1;
  int chunks = 0;  ///< Stages on each actor; 0: what the schedule prefers.
  /// interleaved-1f1b: microbatches that a chunk takes in a row; 0: about as many as there are
  /// actors.
  int group = 0;
  /// With vocabulary passes by with_vocabulary(); interlaced: of 1f1b only.
  VocabularyMode vocabulary = VocabularyMode::kLast;
  VocabularyTimes vocabulary_times = {};
};

/// An entry of the list of schedules.
struct NamedSchedule {
  std::string_view name;
  std::string_view summary;  ///< One line, without the name.
  StagePlacement placement = StagePlacement::kOnePerActor;
  int chunks = 1;           ///< Stages on each actor unless asked otherwise.
  bool any_chunks = false;  ///< Whether another number may be asked for.
  Schedule (*make)(const ScheduleRequest&);
};

/// All of them, in the order to show them. A new one is a function in a file of its own and a line
/// here.
std::span<const NamedSchedule> named_schedules();
std::vector<std::string> schedule_names();
/// Those that by themselves put one stage on each actor.
std::vector<std::string> one_stage_schedule_names();
/// Throws Error(kInvalidArgument) naming the nearest one.
const NamedSchedule& find_named_schedule(std::string_view name);

/// Builds a named schedule. Backwards run in microbatch order on every stage, so gradients are
/// summed in the same order under all of them. Throws Error(kInvalidArgument) for an unknown name
/// (with the nearest), a count below 1, chunks or a vocabulary that the schedule cannot have.
Schedule make_schedule(const ScheduleRequest& request);
/// The same by the number of all stages; must be a multiple of the schedule's chunks.
Schedule make_schedule(std::string_view name, int stages, int microbatches);

/// Forwards only, in microbatch order, one stage per actor: validation.
Schedule make_forward_schedule(int stages, int microbatches);

}  // namespace weft::mesh
