#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// Which letters mean what. PyTorch changed them once: older files write B for the input gradient
/// and BW for the whole backward.
enum class ActionSpelling : std::uint8_t {
  kDetect,   ///< Old if there is a BW, or a W whose (stage, microbatch) has a B; else current.
  kCurrent,  ///< F, I, W, B
  kOld,      ///< F, B, W, BW
};

/// A schedule as read from text, and what the text had that a Schedule does not hold.
struct ScheduleText {
  Schedule schedule;
  std::optional<std::vector<StageEdge>> edges;  ///< From `# edge:` lines; absent if there are none.
  /// SEND, RECV, UNSHARD and RESHARD: Weft infers communication.
  int dropped = 0;
};

/// Reads a table with one row per actor and one action per cell, as PyTorch's pipelining writes it:
///
///   # name: mine
///   # actors of stages: 0 1 1 0
///   # edge: 0 1 4194304 bytes
///   0F0,0F1,,3I0,(0F2;3B1)OVERLAP_F_B,3W0
///   1F0,...
///
/// Blank cells are idle time and are dropped; a blank line is no row. Quotes around cells and a
/// byte order mark, which spreadsheets write, mean nothing. Lines that start with # are optional:
/// without them the schedule is called `source`, a stage lies on the actor in whose row it stands,
/// and other # lines are comments. Throws Error(kInvalidConfig) that begins with
/// "source:line:column:".
ScheduleText read_schedule(std::string_view text, const std::string& source,
                           ActionSpelling spelling = ActionSpelling::kDetect);

/// What to write beside the rows.
enum class ScheduleHeader : std::uint8_t {
  kFull,  ///< Name, placement, edges: read_schedule() gives back the same schedule.
  kNone,  ///< Rows only, which PyTorch reads too.
};

/// The text that read_schedule() reads.
std::string write_schedule(const Schedule& schedule, const std::vector<StageEdge>& edges = {},
                           ScheduleHeader header = ScheduleHeader::kFull);

}  // namespace weft::mesh
