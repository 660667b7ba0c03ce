#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "mesh/program/compile.h"
#include "mesh/program/emitter.h"
#include "mesh/program/lanes.h"
#include "mesh/program/mesh_compiler.h"
#include "mesh/schedule/action_order.h"

namespace weft::mesh {

/// Has the compilers of all meshes emit what the schedule says. Used once; borrows everything.
class StepEmitter {
 public:
  StepEmitter(const Partition& partition, const Schedule& schedule, MeshCompilers& compilers,
              std::map<transfer::DeviceId, Emitter>& emitters, const ActorsOfMeshes& actors,
              const std::vector<OrderedAction>& order);

  /// Every actor's list by itself: nothing but first uses ties them together.
  void emit_lanes();
  /// One order of all actions and transfers.
  void emit_safe(const std::vector<PlannedEdge>& edges);

 private:
  /// What an S of a microbatch leaves for after its exchange, and when it comes.
  struct Rest {
    int microbatch = 0;
    double share = 0;  ///< Of an action's time, which is over before.
  };
  void emit_action(const ActionPlace& place, const std::vector<Rest>& rests = {});
  void emit_rest(std::size_t actor, int microbatch);
  /// Whether what an S leaves for after its exchange is an element of its own, and not the
  /// beginning of a T.
  bool has_rests() const;
  /// By actor and the index of its action, one past the last too: the rests that come before that
  /// or amid its steps. They come when all devices have done their scores, if all take the times
  /// that order_actions() counts on: then nobody waits there long, and what they give is on its way
  /// as soon as can be. It cannot deadlock: what all scores need of an actor is over before the
  /// action amid which its rest comes.
  std::vector<std::vector<std::vector<Rest>>> place_rests() const;

  const Schedule& schedule_;
  const std::vector<OrderedAction>& order_;
  MeshCompilers& all_;
  std::vector<std::vector<MeshCompiler*>> compilers_;  ///< By actor; the spanning mesh's is last.
  std::vector<std::vector<Emitter*>> emitters_;        ///< By actor.
  MeshCompiler* spanning_ = nullptr;
};

}  // namespace weft::mesh
