#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "mesh/program/compile.h"
#include "mesh/program/emitter.h"
#include "mesh/program/internal/mesh_compiler.h"
#include "mesh/program/lanes.h"
#include "mesh/schedule/action_order.h"

namespace weft::mesh {

/// Drives the compilers of all meshes through the schedule. Used once; borrows everything.
class StepEmitter {
 public:
  StepEmitter(const Partition& partition, const Schedule& schedule, MeshCompilers& compilers,
              std::map<transfer::DeviceId, Emitter>& emitters, const ActorsOfMeshes& actors,
              const std::vector<OrderedAction>& order);

  /// Emits every actor's list independently: actors wait for each other only at first uses.
  void emit_lanes();
  /// Emits all actions and transfers in one global order.
  void emit_safe(const std::vector<PlannedEdge>& edges);

 private:
  /// Second half of an S, which follows its exchange, and its place in an action.
  struct DeferredScores {
    int microbatch = 0;
    double share = 0;  ///< Share of the action's time that passes before it.
  };
  /// Emits the compound that begins at `place`.
  void emit_compound(const ActionPlace& place, const std::vector<DeferredScores>& deferred = {});
  void emit_deferred_scores(std::size_t actor, int microbatch);
  /// Returns whether the second half of S is emitted by itself, and not as the beginning of a T.
  bool has_deferred_scores() const;
  /// Places the second halves of S, by actor and by index of the action before which or amid which
  /// each runs; one entry past the last action too. Each is placed where all devices have finished
  /// their scores, by the durations of order_actions(): then devices wait little, and the results
  /// are sent early. It cannot deadlock: every action that the scores depend on ends before the
  /// action amid which a second half is placed.
  std::vector<std::vector<std::vector<DeferredScores>>> place_deferred_scores() const;

  const Schedule& schedule_;
  const std::vector<OrderedAction>& order_;
  MeshCompilers& all_;
  /// Compilers by actor; the spanning mesh's is last.
  std::vector<std::vector<MeshCompiler*>> compilers_;
  std::vector<std::vector<Emitter*>> emitters_;  ///< Emitters by actor.
  MeshCompiler* spanning_ = nullptr;
};

}  // namespace weft::mesh
