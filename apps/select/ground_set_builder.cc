#include "apps/select/ground_set_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "apps/run_files/progress_display.h"
#include "apps/select/memory_plan.h"
#include "apps/selection/point_store.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/units.h"
#include "core/cpu/cpu_device.h"

namespace weft::apps {

void GroundSetBuilder::build(actors::Cluster& cluster, actors::RunRecovery& recovery,
                             const ClusterWorkersOptions& options, ProgressFile& progress) {
  lock();
  if (!config_.input) return;
  prepare();
  // Reports an impossible limit or budget before the graph is built.
  if (!std::filesystem::exists(config_.store() / "points.json"))
    (void)plan_of(config_, forecast_points(config_, {prepared_->rows, prepared_->width}));
  const SteadyClock clock;
  const TimePoint began = clock.now();
  ClusterWorkers<GraphWorker> workers(cluster, recovery, options);
  const GraphSummary graph =
      GraphRun(workers, graph_plan(),
               {.on_progress = note_,
                .save_progress = [&](const GraphProgress& now) { progress.write(now); }})
          .run(progress.graph());
  // The run needs no worker for this any more, so a death does not matter.
  (void)workers.all().call_collect<&GraphWorker::clean>().get();
  report(graph, in_seconds(clock.now() - began));
}

void GroundSetBuilder::report(const GraphSummary& graph, double seconds) {
  // An empty search name means that the neighbours were given.
  const std::string how = graph.search.empty()
                              ? "as they were given"
                              : fmt::format("{}{}, recall {:.4f}", graph.search,
                                            graph.exact ? ", all compared" : "", graph.recall);
  note_(fmt::format("graph: {} directed edges, {}{}",
                    with_thousands(static_cast<double>(graph.directed_edges)), how,
                    graph.was_reused ? ", there already" : ", " + format_seconds(seconds)));
  summary_["input"] = {{"rows", prepared_->rows},
                       {"width", prepared_->width},
                       {"vectors", prepared_->provenance},
                       {"data_digest", prepared_->data_digest},
                       {"seconds", prepared_->seconds}};
  summary_["graph"] = {{"directed_edges", graph.directed_edges},
                       {"exact", graph.exact},
                       {"recall", graph.recall},
                       {"cells", graph.cells},
                       {"probes", graph.probes},
                       {"search", graph.search},
                       {"search_seconds", graph.search_seconds},
                       {"seconds", seconds},
                       {"was_there", graph.was_reused},
                       {"digest", graph.digest}};
}

void GroundSetBuilder::lock() {
  if (config_.points) return;
  std::error_code failed;
  std::filesystem::create_directories(config_.scratch, failed);
  if (failed) return;  // the workers' hosts may have the folder
  const std::filesystem::path file =
      (config_.input ? config_.prepared() : config_.store()).string() + ".lock";
  try {
    lock_ = FileLock::try_acquire(file);
  } catch (const Error& error) {
    throw_error(error.code(), "{}; set scratch to a folder that this user can write to",
                error.message());
  }
  if (lock_) return;
  note_(fmt::format("waiting for another run that is making the same points in {}",
                    config_.store().string()));
  lock_ = FileLock::acquire(file, [&] { return run_.stop.stop_requested(); });
  if (!lock_)
    throw_error(ErrorCode::kCancelled, "interrupted while it waited for {}", file.string());
}

void GroundSetBuilder::prepare() {
  const SteadyClock clock;
  const TimePoint began = clock.now();
  CpuDevice device;
  prepared_ = prepare_input(*config_.input, config_.prepared(), device, {}, run_.stop);
  note_(
      fmt::format("input: {} rows{}{}, {}{}", with_thousands(static_cast<double>(prepared_->rows)),
                  prepared_->kind == InputKind::kVectors
                      ? ""
                      : " to train on (others are held out to validate and test)",
                  prepared_->width == 0 ? "" : fmt::format(" of {} numbers", prepared_->width),
                  prepared_->provenance,
                  prepared_->was_reused ? ", there already"
                                        : ", " + format_seconds(in_seconds(clock.now() - began))));
}

GraphPlan GroundSetBuilder::graph_plan() const {
  GraphPlan plan;
  GraphSettings& settings = plan.settings;
  if (config_.neighbours) {
    settings.input.neighbours = config_.neighbours->string();
    settings.input.similarities = config_.similarities->string();
  } else if (prepared_->has_neighbours) {
    settings.input.neighbours = prepared_->neighbours().string();
    settings.input.similarities = prepared_->similarities().string();
  } else {
    settings.input.vectors = prepared_->vectors().string();
  }
  if (!prepared_->has_uniform_utility) settings.input.utilities = prepared_->utility().string();
  settings.store = config_.store().string();
  settings.scratch = (config_.prepared() / "graph").string();
  settings.count = config_.num_neighbours;
  settings.floor = fraction_of(config_.similarity_floor);
  settings.seed = config_.plan.settings.seed;
  settings.shards =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(ShardLayout::kShards, prepared_->rows));
  const GraphMemory memory = graph_memory(config_.cluster.memory);
  settings.memory = memory.cells;
  settings.exchange_budget = memory.exchange;
  plan.recall = config_.recall;
  return plan;
}

const PreparedInput* GroundSetBuilder::mapped() const {
  const bool has_vectors =
      prepared_ && prepared_->width > 0 && !config_.neighbours && !prepared_->has_neighbours;
  return has_vectors ? &*prepared_ : nullptr;
}

void GroundSetBuilder::generate(SelectionWorkers& workers) const {
  const SteadyClock clock;
  const TimePoint began = clock.now();
  const std::string folder = config_.store().string();
  workers.run_with_recovery(
      [&](const auto& all) {
        std::uint64_t edges = 0;
        for (const std::uint64_t of_worker :
             all.template call<&SelectionWorker::generate>(folder, config_.generated).get())
          edges += of_worker;
        all.template call<&SelectionWorker::write_index>(folder, config_.generated, edges).get();
        return edges;
      },
      [] {});
  note_(fmt::format("generated {} points, {}",
                    with_thousands(static_cast<double>(config_.generated.points)),
                    format_seconds(in_seconds(clock.now() - began))));
}

KnownPoints GroundSetBuilder::require(SelectionWorkers& workers) {
  const std::string folder = config_.store().string();
  for (bool may_generate = !config_.points && !config_.input;; may_generate = false) {
    const auto found = workers.run_with_recovery(
        [&](const auto& all) {
          return all.template call<&SelectionWorker::inspect_store>(folder).get();
        },
        [] {});
    const auto lacks = std::ranges::find(found, std::uint64_t{0}, &GroundSet::points);
    if (lacks == found.end()) {
      lock_.reset();
      return {found.front().points, found.front().directed_edges, found.front().shards, true};
    }
    if (!may_generate)
      throw_error(ErrorCode::kNotFound,
                  "the points in {} do not exist on the host of worker {}, as each host stores "
                  "those of its own workers. Use the hosts of the run that made them, or remove "
                  "the folder to make them again",
                  folder, lacks - found.begin());
    generate(workers);
  }
}

}  // namespace weft::apps
