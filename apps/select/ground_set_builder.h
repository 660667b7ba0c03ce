#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "actors/cluster/cluster.h"
#include "actors/launch/app_main.h"
#include "actors/recovery/run_recovery.h"
#include "apps/select/cluster_workers.h"
#include "apps/select/progress_file.h"
#include "apps/select/select_config.h"
#include "apps/select/select_plan.h"
#include "apps/select_input/prepare_input.h"
#include "apps/selection/graph_run.h"
#include "apps/selection/selection_run.h"
#include "core/base/file_lock.h"

namespace weft::apps {

/// Makes the points of a selection and their graph, or finds them. The source is an input, which it
/// prepares and whose graph workers build; generated points; or an existing store. For the driver:
/// build(), then require(). Not thread-safe.
class GroundSetBuilder final {
 public:
  /// `note` is called with lines for users. The arguments must outlive this object.
  GroundSetBuilder(const SelectConfig& config, const actors::AppRun& run,
                   const std::function<void(const std::string&)>& note)
      : config_(config), run_(run), note_(note) {}

  /// Blocks until no other run on this machine makes the same points. Then prepares the input, if
  /// there is one, and builds its graph on workers of a mesh of their own. Throws
  /// Error(kInvalidArgument) for an impossible budget or memory limit.
  void build(actors::Cluster& cluster, actors::RunRecovery& recovery,
             const ClusterWorkersOptions& options, ProgressFile& progress);
  /// Returns the points after checking that each worker's host has its shards. Generates them if
  /// the configuration asks for it. Lets other runs make points.
  KnownPoints require(SelectionWorkers& workers);

  /// Returns the prepared input, or null if the points are not of an input.
  const PreparedInput* prepared() const { return prepared_ ? &*prepared_ : nullptr; }
  /// Returns the prepared input if the graph was built from its vectors, else null.
  const PreparedInput* mapped() const;
  /// Returns the entries `input` and `graph` of summary.json. Empty without an input.
  const nlohmann::ordered_json& summary() const { return summary_; }

 private:
  void lock();
  void prepare();
  GraphPlan graph_plan() const;
  /// Reports the graph to users and adds it to the summary.
  void report(const GraphSummary& graph, double seconds);
  void generate(SelectionWorkers& workers) const;

  const SelectConfig& config_;
  const actors::AppRun& run_;
  const std::function<void(const std::string&)>& note_;
  std::optional<FileLock> lock_;  ///< Null if the points need no lock.
  std::optional<PreparedInput> prepared_;
  nlohmann::ordered_json summary_ = nlohmann::ordered_json::object();
};

}  // namespace weft::apps
