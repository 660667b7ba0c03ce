#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// Where the output layer's product with the vocabulary and the input layer's table are computed
/// (Vocabulary Parallelism, arXiv 2411.05288).
enum class VocabularyMode : std::uint8_t {
  kLast,    ///< "last": the model's first and last stage have them, as any other layer.
  kVocab1,  ///< "vocab-1": over all actors. T gives both gradients: two barriers.
  /// "vocab-2": over all actors. S also prepares the input gradient, and T is only the weight
  /// gradient, for which nobody waits: one barrier.
  kVocab2,
  /// "interlaced": over all actors at the same time, T right behind S, as with a vocabulary that is
  /// tensor-parallel. Two barriers.
  kInterlaced,
};

std::string_view to_string(VocabularyMode mode);
/// In the order of the enumeration.
std::span<const VocabularyMode> vocabulary_modes();
/// Schedule::vocabulary_barriers: 0, 2, 1, 2.
int vocabulary_barriers(VocabularyMode mode);

/// Times by which the order of passes is chosen, in any unit. Of forward and gradients: all stages
/// of one actor together, for one microbatch.
struct VocabularyTimes {
  double forward = 1;
  double input_grad = 1;
  double weight_grad = 1;
  double scores = 0.1;             ///< S
  double grads = 0.1;              ///< T
  double input = 0.02;             ///< IF, and IB
  double transfer = 0;             ///< From stage to stage.
  double vocabulary_transfer = 0;  ///< From a stage to all actors, or back.
  /// Passes are put in order as if transfers took at least so long: that bears links that need as
  /// much, and is within a percent of the best on links that need none.
  double least_transfer = 0.25;

  /// What an actor computes for one microbatch, but for the input layer.
  double interval() const { return forward + input_grad + weight_grad + scores + grads; }
  /// How long an action takes on an actor that has `stages` stages, times `stages`: its forward
  /// takes what is said of all of them.
  double of(ActionKind kind, double stages) const;
  /// What passes between two actions on different actors.
  double between(ActionKind from, ActionKind to) const {
    return is_vocabulary_pass(from) || is_vocabulary_pass(to) ? vocabulary_transfer : transfer;
  }
};

/// The same schedule, a chain of stages, with S, T, IF and IB on every actor, named by its lowest
/// stage. Of a schedule without backwards: with IF and S alone.
///
/// First all forwards are moved ahead, so that every stage has as many more microbatches under way
/// as there are barriers: each barrier takes one interval, in which an actor computes one
/// microbatch, between the last stage's F and its backward. Then the passes are put in by list
/// scheduling, in time as `times` tell it:
///   IF  as soon as stage 0 begins the forward two microbatches before
///   S   as soon as the last stage's F is over and the actor is free
///   T   before the next S of its actor, which so holds the scores of one microbatch; earlier while
///       the actor would stand still for as long as it takes
///   IB  once stage 0's input gradient has been there for an interval, or the actor is idle
/// With `1f1b` on p actors the actor r has at most p - r + 1 (vocab-2) or p - r + 2 (vocab-1)
/// microbatches under way.
///
/// Throws Error(kInvalidArgument) for a schedule of one actor, one that has such passes or cannot
/// finish, and for kInterlaced, which is a schedule of its own: see ScheduleRequest. Mode kLast
/// gives the schedule back as it is.
Schedule with_vocabulary(Schedule schedule, VocabularyMode mode, const VocabularyTimes& times = {});

/// The part of check_complete() that concerns S, T, IF and IB: all actors or none have them, once
/// for each microbatch, named by one stage of the actor; at least two actors; T with S and IB with
/// IF (in training; else neither); and barriers if and only if there are S and T. Throws
/// Error(kInvalidArgument).
void check_vocabulary_passes(const Schedule& schedule, bool training = true);

/// Throws Error(kInvalidArgument) unless a schedule that validate() accepts has just the passes and
/// the barriers of `mode`. Interlaced passes are told from those of vocab-1 by their order: T
/// directly behind S.
void require_vocabulary(const Schedule& schedule, VocabularyMode mode, bool training = true);

}  // namespace weft::mesh
