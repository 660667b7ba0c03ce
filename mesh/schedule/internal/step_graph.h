#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "core/simulation/task_graph.h"
#include "mesh/schedule/action_graph.h"
#include "mesh/schedule/simulate.h"

namespace weft::mesh {

/// Task graph of one step: first the pieces of all actions, then the transfers. A node is the
/// number of a task. Borrows its inputs.
///
/// An action is cut where a tensor is sent before its end or needed after its beginning, so that it
/// can block there:
///
///   1F0   [ piece 0 | piece 1 | piece 2 ]
///         ^         ^         |
///     hidden     skip's use   '--> sends its own skip tensor and continues
///
/// A compound waits for all tensors at its beginning. The pieces of its members follow each other
/// without waits in between. If the members run interleaved, their pieces take parts of the
/// compound's time, and a tensor leaves at its time, whichever member's piece that is.
///
/// Transfers of vocabulary passes are tasks numbered after these nodes.
class StepGraph {
 public:
  struct TensorTransfer {
    int edge = 0;
    bool backward = false;
    int producer = 0;  ///< Producing action; `consumer` is the using action.
    int consumer = 0;
    int made_by = 0;    ///< Piece after which the tensor exists.
    int needed_by = 0;  ///< Piece that waits for the tensor.
  };

  StepGraph(const ScheduleCosts& costs, const SimulationOptions& options, const Schedule& schedule,
            const ActionGraph& actions);

  const TaskGraph& tasks() const { return tasks_; }
  std::size_t size() const { return duration_.size(); }
  /// Returns the number of pieces; later nodes are transfers.
  std::size_t num_pieces() const { return duration_.size() - transfers_.size(); }
  /// Returns a piece's duration, or a transfer's duration without contention.
  double duration(std::size_t node) const { return duration_[node]; }
  const std::vector<TensorTransfer>& transfers() const { return transfers_; }
  const TensorTransfer& transfer_of(std::size_t node) const {
    return transfers_[node - num_pieces()];
  }
  const TensorTiming& timing(const TensorTransfer& transfer) const {
    const EdgeCosts& edge = costs_.edges[transfer.edge];
    return transfer.backward ? edge.backward_timing : edge.forward_timing;
  }
  /// Returns the action of a piece.
  int action_of(std::size_t piece) const { return action_of_[piece]; }
  /// Return the first and last piece of an action.
  std::size_t first_piece(int action) const { return first_piece_[action]; }
  std::size_t last_piece(int action) const { return first_piece_[action + 1] - 1; }
  /// Return the pieces at which the action's compound begins and ends.
  std::size_t begin_piece(int action) const { return first_piece(actions_.compound_begin(action)); }
  std::size_t end_piece(int action) const { return last_piece(actions_.compound_end(action)); }

 private:
  /// Point within an action at which a tensor is computed or needed.
  struct TensorPoint {
    int action = 0;
    double position = 0;
    int step = 0;
    bool makes = false;
    std::size_t transfer = 0;
    bool cuts = false;
  };

  /// Transfer for a vocabulary pass of one microbatch.
  struct VocabularyMove {
    int user = -1;  ///< First action that waits for it; its dependencies are those of the transfer.
    TaskId task;
  };

  bool same_lane(std::size_t a, std::size_t b) const {
    return transfers_[a].edge == transfers_[b].edge &&
           transfers_[a].backward == transfers_[b].backward;
  }
  std::size_t node_of(std::size_t transfer) const { return num_pieces() + transfer; }

  void find_transfers();
  double position(int action, double work, double weights) const;
  bool is_in_compound(int action) const {
    return actions_.compound_begin(action) != actions_.compound_end(action);
  }
  /// Costs of compounds, by first member; null if the members run one after the other.
  void find_compounds();
  const CompoundCosts* compound_of(int action) const {
    return compounds_[actions_.compound_begin(action)];
  }
  /// Returns the duration of an action without `dispatch_time`: within an interleaved compound, its
  /// part of the compound's.
  double length(int action) const;
  /// Returns the point at which an action of a compound makes a tensor.
  TensorPoint point_in_compound(std::size_t transfer) const;
  std::vector<TensorPoint> find_events() const;
  void cut_actions();
  void cut(int action, std::vector<TensorPoint>::const_iterator begin,
           std::vector<TensorPoint>::const_iterator end);
  void build_global_order(const Schedule& schedule);
  void find_send_waits(const Schedule& schedule);
  void add_tasks();
  void wait(std::size_t first, std::size_t then) {
    tasks_.add_dependency(TaskId(then), TaskId(first));
  }
  void add_arcs();
  void add_arcs_of_actions();
  void add_vocabulary_arcs(int action, const ActionGraph::ActionDependency& need);
  void add_arcs_of_transfers();
  void add_arcs_of_credits();
  TaskId add_transfer(const TensorTransfer& transfer, double seconds);

  const ScheduleCosts& costs_;
  const SimulationOptions& options_;
  const ActionGraph& actions_;
  std::vector<TensorTransfer> transfers_;
  std::vector<std::size_t> first_piece_;  ///< First piece by action, and the end.
  std::vector<int> action_of_;
  /// If blocking: pieces and transfers in order, per actor.
  std::vector<std::vector<std::size_t>> lists_;
  /// Action that waits for the transfer's end, or -1, by transfer. Empty if such waits take no
  /// time.
  std::vector<int> send_waits_;
  std::vector<const CompoundCosts*> compounds_;
  std::vector<double> duration_;
  /// Keyed by the kinds of producing and using action, and the microbatch.
  std::map<std::tuple<ActionKind, ActionKind, int>, VocabularyMove> vocabulary_moves_;
  TaskGraph tasks_;
};

}  // namespace weft::mesh
