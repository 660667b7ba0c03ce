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

/// Graph to build. A value.
struct GraphPlan {
  GraphSettings settings;
  /// Minimum recall: share of the exact neighbours of sampled points that is found, by similarity.
  double recall = 0.95;
  std::uint32_t probes = 4;             ///< Cells that each point searches at first.
  std::uint64_t exact_below = 100'000;  ///< Number of points below which all pairs are compared.
  std::uint32_t cells = 0;              ///< 0 for about the square root of the number of points.
};

/// Returns the number of cells for `points` points if GraphPlan::cells is 0.
std::uint32_t default_num_cells(std::uint64_t points);

/// Progress of a graph, from which a restarted driver resumes. A value.
struct GraphProgress {
  std::string digest;        ///< Digest of input and settings. "" if nothing is done.
  bool compared = false;     ///< True if all pairs have been compared.
  std::uint32_t cells = 0;   ///< Number of cells. 0 if they do not exist yet.
  std::uint32_t probes = 0;  ///< Cells that each point has searched.
  double recall = 0;         ///< Recall with that number of probes.
};

/// Result of building a graph.
struct GraphSummary {
  std::uint64_t points = 0, dimensions = 0, directed_edges = 0;
  bool was_reused = false;  ///< True if the store existed for the same input and settings.
  std::string digest;       ///< Digest of input and settings.
  bool exact = true;
  double recall = 1;
  std::uint32_t samples = 0;            ///< Number of sampled points behind `recall`. 0 if the
                                        ///< neighbours are exact or given.
  std::uint32_t cells = 1, probes = 1;  ///< Cells, and how many each point searched.
  std::string search;                   ///< Name of the VectorSearch. "" if neighbours are given.
  SearchCount compared;
  double search_seconds = 0;  ///< Duration of the search phases.
  std::uint32_t recoveries = 0;
  std::vector<ResourceUsage> workers;
};

/// Builds a ground set with its graph (PointStore) from vectors or given neighbours, on workers.
///
///   GraphRun run(workers, {.settings = {.input = {.vectors = "v.npy"}, .store = ..., ...}}, {});
///   const GraphSummary summary = run.run();   // then PointStore(settings.store)
///
/// The store depends on the plan and the input alone, not on the number of workers, if the
/// machines' libraries round alike. An existing store is reused: graph.json beside its index
/// describes its origin. For the driver; use once.
class GraphRun final {
 public:
  struct Hooks {
    /// Called with a line for users after each phase. May be empty.
    std::function<void(const std::string&)> on_progress = {};
    /// Called with the progress to save for a restarted driver. May be empty.
    std::function<void(const GraphProgress&)> save_progress = {};
  };

  GraphRun(GraphWorkers& workers, GraphPlan plan, Hooks hooks)
      : workers_(workers), plan_(std::move(plan)), hooks_(std::move(hooks)) {}

  /// Resumes from `progress` if it is of this graph, else starts. Throws the workers' errors,
  /// except for deaths from which recover() recovers.
  GraphSummary run(GraphProgress progress = {});

 private:
  template <typename Phase>
  auto run_with_recovery(const Phase& phase);
  void begin();
  /// Sends the input's rows to workers whose hosts lack them.
  void distribute_input();
  /// Inspects all rows, sets the utility scale in `link_` and returns the digest of input and
  /// settings.
  std::string inspect();
  bool find_existing_store();
  /// Returns true if all workers have the files of the phases that `progress` says are done.
  bool has_saved_state(const GraphProgress& progress);
  /// Finds the points that are copies of others, which are not searched.
  void find_copies();
  void compare_all();
  void train();
  /// Returns the similarities of the exact nearest neighbours of each sample.
  std::vector<std::vector<std::uint16_t>> exact_of_samples();
  void probe();
  double recall_of(const std::vector<std::vector<std::uint16_t>>& exact, std::uint32_t probes);
  void finish();
  void report(const std::string& line) const {
    if (hooks_.on_progress) hooks_.on_progress(line);
  }
  void save_progress() const {
    if (hooks_.save_progress) hooks_.save_progress(progress_);
  }

  GraphWorkers& workers_;
  GraphPlan plan_;
  const Hooks hooks_;
  SteadyClock clock_;
  GraphShape shape_;
  LinkRequest link_;
  GraphSummary summary_;
  GraphProgress progress_;
  bool begun_ = false;         ///< True if the workers have begun.
  bool discard_state_ = true;  ///< True if the state in `scratch` is not usable.
  std::uint32_t holder_ = 0;   ///< Rank of a worker that has the whole input.
};

}  // namespace weft::apps
