#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// Spelling of backward actions. Older PyTorch files write B for the input gradient and BW for the
/// whole backward.
enum class ActionSpelling : std::uint8_t {
  kDetect,   ///< Old if there is a BW, or a W whose (stage, microbatch) has a B; else current.
  kCurrent,  ///< F, I, W, B
  kOld,      ///< F, B, W, BW
};

/// Schedule read from text, with contents that a Schedule does not hold.
struct ScheduleText {
  Schedule schedule;
  std::optional<std::vector<StageEdge>> edges;  ///< From `# edge:` lines; absent if there are none.
  /// Number of ignored SEND, RECV, UNSHARD and RESHARD: Weft infers communication.
  int ignored_operations = 0;
};

/// Reads a table with one row per actor and one action per cell, as PyTorch's pipelining writes it:
///
///   # name: mine
///   # actors of stages: 0 1 1 0
///   # edge: 0 1 4194304 bytes
///   0F0,0F1,,3I0,(0F2;3B1)OVERLAP_F_B,3W0
///   1F0,...
///
/// Ignores blank cells (idle time), blank lines, quotes around cells and a byte order mark. Lines
/// that start with # are optional. Without them, the schedule's name is `source`, and a stage is on
/// the actor of its row. Unknown # lines are comments. Throws Error(kInvalidConfig) that begins
/// with "source:line:column:" or, for errors of the whole text, "source:".
ScheduleText read_schedule(std::string_view text, const std::string& source,
                           ActionSpelling spelling = ActionSpelling::kDetect);

/// Header lines to write before the rows.
enum class ScheduleHeader : std::uint8_t {
  kFull,  ///< Name, placement, barriers, edges: read_schedule() returns the same schedule.
  kNone,  ///< None; PyTorch can read the rows too.
};

/// Writes the format that read_schedule() reads.
std::string write_schedule(const Schedule& schedule, const std::vector<StageEdge>& edges = {},
                           ScheduleHeader header = ScheduleHeader::kFull);

}  // namespace weft::mesh
