#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/selection/graph_messages.h"
#include "apps/selection/graph_worker.h"
#include "apps/selection/worker_group.h"
#include "core/base/clock.h"

namespace weft::apps {

using GraphWorkers = WorkerGroup<GraphWorker>;

/// A graph that is wanted. A value.
struct GraphPlan {
  GraphSettings settings;
  /// Which share of the exact neighbours of some points is to be found, by similarity.
  double recall = 0.95;
  std::uint32_t probes = 4;             ///< Cells that each point looks into at first.
  std::uint64_t exact_below = 100'000;  ///< Fewer points are all compared with each other.
  std::uint32_t cells = 0;              ///< 0: about the square root of the number of points.
};

/// Of so many points, where GraphPlan.cells is 0.
std::uint32_t num_cells(std::uint64_t points);

/// How far a graph is, for a driver that goes on. A value.
struct GraphProgress {
  std::string digest;        ///< Of input and settings; "": nothing is done.
  bool compared = false;     ///< All points with all.
  std::uint32_t cells = 0;   ///< 0: they have not been made.
  std::uint32_t probes = 0;  ///< Of those each point has looked into so many.
  double recall = 0;         ///< Of these.
};

/// What came of it.
struct GraphSummary {
  std::uint64_t points = 0, dimensions = 0, directed_edges = 0;
  bool was_there = false;  ///< Of the same input and settings: nothing was made.
  std::string digest;      ///< Of input and settings.
  bool exact = true;
  double recall = 1;
  std::uint32_t samples = 0;            ///< Whose recall that is; 0: all are exact, or given.
  std::uint32_t cells = 1, probes = 1;  ///< Of these cells each point looked into so many.
  std::string search;                   ///< What compared vectors; "" if neighbours are given.
  SearchCount compared;
  double search_seconds = 0;  ///< Of the phases in which they were compared.
  std::uint32_t recoveries = 0;
  std::vector<WorkerUse> workers;
};

/// Makes a ground set with its graph (PointStore) of vectors, or of given neighbours, by workers.
///
///   GraphRun run(workers, {.settings = {.input = {.vectors = "v.npy"}, .store = ..., ...}}, {});
///   const GraphSummary summary = run.run();   // then PointStore(settings.store)
///
/// The store depends on the plan and the input alone, whatever the number of workers, on machines
/// whose libraries round alike. It is not made again where it is there: graph.json beside its index
/// says of what it was made. A driver's, used once.
class GraphRun final {
 public:
  struct Hooks {
    /// What has just been done, a line for people. May be empty.
    std::function<void(const std::string&)> tell = {};
    /// To be kept, for who goes on after this driver. May be empty.
    std::function<void(const GraphProgress&)> keep = {};
  };

  GraphRun(GraphWorkers& workers, GraphPlan plan, Hooks hooks)
      : workers_(workers), plan_(std::move(plan)), hooks_(std::move(hooks)) {}

  /// Goes on from `progress`, if that is of this graph, or begins. Throws what workers throw, but
  /// for deaths that recover() mends.
  GraphSummary run(GraphProgress progress = {});

 private:
  template <typename Phase>
  auto repeat(const Phase& phase);
  void begin();
  /// Workers whose hosts lack the input get theirs.
  void give_input();
  /// Digest of input and settings; what utilities are is in `link_`.
  std::string inspect();
  bool is_there();
  /// Whether all workers have the files of what `progress` says is done.
  bool has_state(const GraphProgress& progress);
  /// Finds the points that are copies of others: they are not searched.
  void find_copies();
  void compare_all();
  void train();
  /// How similar the nearest of each sample are, of all points.
  std::vector<std::vector<std::uint16_t>> exact_of_samples();
  void probe();
  double recall_of(const std::vector<std::vector<std::uint16_t>>& exact, std::uint32_t probes);
  void finish();
  void tell(const std::string& line) const {
    if (hooks_.tell) hooks_.tell(line);
  }
  void keep() const {
    if (hooks_.keep) hooks_.keep(progress_);
  }

  GraphWorkers& workers_;
  GraphPlan plan_;
  const Hooks hooks_;
  SteadyClock clock_;
  GraphShape shape_;
  LinkRequest link_;
  GraphSummary summary_;
  GraphProgress progress_;
  bool begun_ = false;        ///< Workers have.
  bool anew_ = true;          ///< What lies in `scratch` is of no use.
  std::uint32_t holder_ = 0;  ///< A worker that has all of the input.
};

}  // namespace weft::apps
