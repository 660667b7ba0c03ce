#pragma once

#include <cstddef>
#include <vector>

#include "mesh/search/search.h"

namespace weft::mesh {

/// One direction of an edge between stages: its activations, or its gradients.
struct EdgeLane {
  bool exists = false;  ///< False between stages of one actor, and if nothing is sent.
  int from_actor = 0, to_actor = 0;
  int from_stage = 0, to_stage = 0;
  double seconds = 0;
  double bytes = 0;
  std::size_t out = 0, in = 0;  ///< Interfaces of sender and receiver; equal if none is used.
};

/// Events of all actions of a request, which do not depend on the order of the actions. A value,
/// apart from the request that it borrows.
///
/// An action is a list of events with time between them: each event waits for a tensor of a lane or
/// completes one. Lanes are in pairs: an edge's activations, then its gradients.
class ActionEvents {
 public:
  struct ActionEvent {
    double before = 0;  ///< Time from the previous event, or from the start of the action.
    int lane = 0;
    bool makes = false;
  };
  /// Events of a (stage, kind).
  struct ActionProgram {
    /// Range of events; those before `start` precede the beginning of the action.
    std::size_t first = 0, start = 0, past = 0;
    double rest = 0;  ///< Time after the last event.
    /// Stages on the same actor whose outputs the action needs.
    std::vector<int> stages_before;
  };

  explicit ActionEvents(const SearchRequest& request);

  const std::vector<EdgeLane>& lanes() const { return lanes_; }
  /// Returns whether a lane carries gradients.
  static bool is_backward(std::size_t lane) { return lane % 2 == 1; }
  /// Returns whether any tensor between stages takes memory.
  bool holds_tensors() const { return holds_tensors_; }

  std::size_t num_programs() const { return programs_.size(); }
  /// Returns the index of the action's program.
  static std::size_t index_of(const Action& action) {
    return action.stage * kKinds + static_cast<std::size_t>(action.kind);
  }
  const ActionProgram& program(const Action& action) const { return programs_[index_of(action)]; }
  const ActionEvent& event(std::size_t index) const { return events_[index]; }

 private:
  static constexpr std::size_t kKinds = 4;
  /// Point within an action at which a tensor is completed or needed.
  struct TensorEvent {
    double position = 0;
    int step = 0;
    bool makes = false;
    int lane = 0;
  };
  /// Returns whether actions of that kind produce or use the lane's tensors.
  static bool carries(std::size_t lane, ActionKind kind) {
    return kind != ActionKind::kWeightGrad && is_backward(lane) == (kind != ActionKind::kForward);
  }
  void add_lanes();
  void add_program(int stage, ActionKind kind);
  /// Returns the sorted tensor events of an action. StepGraph cuts the same action into pieces.
  std::vector<TensorEvent> tensor_events(int stage, ActionKind kind) const;
  /// Returns the stages of the same actor whose tensors the action uses.
  std::vector<int> stages_before(int stage, ActionKind kind) const;

  const SearchRequest& request_;
  std::vector<EdgeLane> lanes_;
  std::vector<ActionEvent> events_;
  std::vector<ActionProgram> programs_;
  bool holds_tensors_ = false;
};

}  // namespace weft::mesh
