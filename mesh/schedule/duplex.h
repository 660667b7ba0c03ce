#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// Choice of the actions that a mesh runs as compounds, so that one communicates while another
/// computes (Duplex; HiDup, SoCC 2022).
enum class Duplex : std::uint8_t {
  kOff,  ///< None: the members of a schedule's own compounds run one after the other.
  /// Each microbatch is cut into two halves of its rows. The same action of both is a compound.
  kHalves,
  /// A forward of a later microbatch and a backward of an earlier one are a compound.
  kCross,
  kAuto,  ///< Shortest predicted step; kOff if the gain is too small.
};
/// Returns "off", "halves", "cross" or "auto".
std::string_view to_string(Duplex duplex);
/// Returns all choices, in display order.
std::vector<Duplex> duplex_choices();

/// Returns the schedule with its compounds split into single actions, in the same order.
Schedule without_compounds(Schedule schedule);

/// Returns the schedule of a step in which each microbatch is cut into two halves. Microbatch i
/// becomes microbatches 2i and 2i+1, and each F, B, I, W and R becomes a compound of two. A
/// vocabulary pass runs for one half after the other. Compounds of the schedule are dissolved.
Schedule with_halves(const Schedule& schedule);

/// Undoes with_halves(), except that the compounds which it dissolved stay dissolved.
Schedule without_halves(Schedule schedule);

/// Returns 1F1B whose forwards and backwards are compounds: an F of a later and a B of an earlier
/// microbatch. Stage s warms up with 2(p-1-s)+1 forwards, because a pair needs tensors of both
/// neighbours' earlier pairs. With fewer forwards, stages wait longer than pairs save.
///
///   p = 2:  0F0 0F1 0F2 (0F3;0B0) (0F4;0B1) ... 0B
///           1F0 (1F1;1B0) (1F2;1B1) ... 1B
Schedule make_crossed_1f1b(int stages, int microbatches);

/// Returns the number of forwards with which stage 0 of make_crossed_1f1b() warms up.
constexpr int crossed_warm_up(int stages) { return 2 * stages - 1; }

}  // namespace weft::mesh
