#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// Placement of the output layer and the input embedding (Vocabulary Parallelism, arXiv
/// 2411.05288).
enum class VocabularyMode : std::uint8_t {
  kLast,    ///< "last": on the first and the last stage, like other layers.
  kVocab1,  ///< "vocab-1": split over all actors. T computes both gradients: two barriers.
  /// "vocab-2": split over all actors. S also prepares the input gradient, and T computes only the
  /// weight gradient, for which no action waits: one barrier.
  kVocab2,
  /// "interlaced": split over all actors, which compute at the same time, T right after S, as with
  /// tensor parallelism. Two barriers.
  kInterlaced,
};

std::string_view to_string(VocabularyMode mode);
/// Returns all modes, in the order of the enumeration.
std::span<const VocabularyMode> vocabulary_modes();
/// Returns the number of barriers (Schedule::vocabulary_barriers) of a mode: 0, 2, 1, 2.
int vocabulary_barriers(VocabularyMode mode);

/// Durations that decide the order of passes, in any unit. Forward and gradients: all stages of one
/// actor together, for one microbatch.
struct VocabularyTimes {
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;
  double scores = 0.1;             ///< Time of S.
  double grads = 0.1;              ///< Time of T.
  double input = 0.02;             ///< Time of IF or IB.
  double transfer = 0;             ///< Transfer between stages.
  double vocabulary_transfer = 0;  ///< Transfer from a stage to all actors, or back.
  /// Lower bound of transfer times when passes are ordered. The order then tolerates links with
  /// such times, and is within a percent of the best on faster links.
  double min_transfer = 0.25;

  /// Returns an actor's computing time per microbatch, without the input layer.
  double interval() const { return forward + input_grad + weight_grad + scores + grads; }
  /// Returns `stages` times the duration of an action on an actor with `stages` stages, because
  /// `forward` and the gradients count all of them.
  double of(ActionKind kind, double stages) const;
  /// Returns the transfer time between two actions on different actors.
  double between(ActionKind from, ActionKind to) const {
    return is_vocabulary_pass(from) || is_vocabulary_pass(to) ? vocabulary_transfer : transfer;
  }
};

/// Adds S, T, IF and IB to every actor of a schedule for a chain of stages; they carry the number
/// of its lowest stage. A schedule without backwards gets IF and S only.
///
/// First moves forwards ahead, so that every stage has one more microbatch in flight per barrier:
/// each barrier takes one interval (the time in which an actor computes one microbatch) between the
/// last stage's F and its backward. Then adds passes by list scheduling with the durations of
/// `times`:
///   IF  as soon as stage 0 begins the forward two microbatches before
///   S   as soon as the last stage's F has ended and the actor is free
///   T   before the next S of its actor, so that an actor holds the scores of one microbatch;
///       earlier if the actor would otherwise be idle for T's duration
///   IB  one interval after stage 0's input gradient, or when the actor is idle
/// With `1f1b` on p actors, actor r has at most p - r + 1 (vocab-2) or p - r + 2 (vocab-1)
/// microbatches in flight.
///
/// Throws Error(kInvalidArgument) for a schedule with one actor, with vocabulary passes, or that
/// cannot finish, and for kInterlaced, which is a separate schedule (see ScheduleRequest). Returns
/// the schedule unchanged for kLast.
Schedule with_vocabulary(Schedule schedule, VocabularyMode mode, const VocabularyTimes& times = {});

/// Checks S, T, IF and IB for check_complete(). All actors or none have them, once per microbatch,
/// with the number of one of the actor's stages. There are at least two actors. In training T goes
/// with S and IB with IF; otherwise neither exists. Barriers exist if and only if S and T do.
/// Throws Error(kInvalidArgument).
void check_vocabulary_passes(const Schedule& schedule, bool training = true);

/// Throws Error(kInvalidArgument) unless a valid schedule has exactly the passes and barriers of
/// `mode`. Interlaced passes differ from vocab-1 in that T directly follows S.
void require_vocabulary(const Schedule& schedule, VocabularyMode mode, bool training = true);

/// Describes where actors run the microbatches of a vocabulary pass in different orders; "" if they
/// do not.
std::string find_unordered_pass(const Schedule& schedule);

}  // namespace weft::mesh
