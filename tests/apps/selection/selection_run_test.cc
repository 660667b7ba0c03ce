// Tests selection by actors, over real sockets and UCX, against the algorithms in memory, for any
// number of workers and after deaths.
#include "apps/selection/selection_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/selection/generated_points.h"
#include "apps/selection/greedy.h"
#include "apps/selection/selection_worker.h"
#include "tests/apps/selection/local_workers.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using LocalWorkers = test::LocalWorkers<SelectionWorker>;

class SelectionRunTest : public testing::Test {
 protected:
  SelectionRunTest() {
    generate_points(points, {.points = 2000, .shards = 6, .seed = 3, .neighbours = 6, .group = 50});
  }

  SelectionPlan plan(const std::string& name) const {
    SelectionPlan plan;
    plan.settings.points = points.string();
    plan.settings.scratch = (folder.path() / name).string();
    plan.settings.count = 200;
    plan.settings.utility = 9;
    plan.settings.exchange_budget = 1 << 20;
    plan.rounds = {.partitions = 5, .rounds = 3, .seed = 1};
    return plan;
  }
  struct Outcome {
    SelectionSummary summary;
    std::vector<PointId> chosen;
    std::vector<ResultPoint> results;
  };
  Outcome run(LocalWorkers& workers, const SelectionPlan& what,
              const std::function<void(const std::string&)>& tell = {},
              const SelectionProgress& progress = {}) {
    SelectionRun run(workers, what,
                     {.on_progress = tell,
                      .save_progress = [&](const SelectionProgress& now) { kept.push_back(now); }});
    Outcome outcome;
    outcome.summary = run.run(progress);
    workers.before_call = {};
    run.each_result([&](const ResultPoint& point) {
      outcome.chosen.push_back(point.id);
      outcome.results.push_back(point);
    });
    return outcome;
  }
  /// Returns the ids that bounding and rounds in memory choose.
  std::vector<PointId> expected(const SelectionPlan& what) const {
    const Objective objective = what.settings.objective();
    PointGraph graph = PointStore(points).load(objective);
    std::vector<PointId> ids;
    RoundOptions options = what.rounds;
    options.count = what.settings.count;
    options.seed = what.settings.seed;
    if (what.settings.use_bounding) {
      const BoundedPoints bounded =
          bound_points(graph, objective, options.count, {what.settings.sample, what.settings.seed},
                       what.settings.resample_edges);
      ids.assign(bounded.accepted.begin(), bounded.accepted.end());
      graph = part_of(graph, bounded.open);
      graph.gains = bounded.gains;
      options.count = bounded.wanted;
      // Partitions have the capacity that they have without bounding.
      options.capacity = (2000 + options.partitions - 1) / options.partitions;
    }
    if (options.count > 0)
      for (const ChosenPoint& point : choose_in_rounds(graph, objective, options).chosen)
        ids.push_back(graph.ids[point.row]);
    std::ranges::sort(ids);
    return ids;
  }

  test::ScratchFolder folder;
  const std::filesystem::path points = folder.path() / "points";
  std::vector<SelectionProgress> kept;
};

TEST_F(SelectionRunTest, ChoosesWhatTheAlgorithmsInMemoryChooseWithAnyNumberOfWorkers) {
  std::map<std::string, SelectionPlan> plans;
  plans["adaptive"] = plan("a");
  plans["fixed"] = plan("f");
  plans["fixed"].rounds.adaptive = false;
  plans["central"] = plan("c");
  plans["central"].rounds = {.partitions = 1, .rounds = 1};
  plans["exact bounding"] = plan("e");
  plans["exact bounding"].settings.use_bounding = true;
  plans["exact bounding"].settings.utility = 30;
  plans["sampled bounding"] = plan("s");
  plans["sampled bounding"].settings.use_bounding = true;
  plans["sampled bounding"].settings.sample = 300;
  plans["fresh bounding"] = plans["sampled bounding"];
  plans["fresh bounding"].settings.resample_edges = true;
  std::map<std::string, std::string> digests;
  for (const std::size_t workers : {1, 3}) {
    LocalWorkers local(workers);
    for (const auto& [name, what] : plans) {
      // Fresh samples take hundreds of steps; one worker would give the same result.
      if (what.settings.resample_edges && workers == 1) continue;
      SCOPED_TRACE(fmt::format("{} of {} workers", name, workers));
      const Outcome outcome = run(local, what);
      ASSERT_EQ(outcome.chosen, expected(what));
      const PointGraph graph = PointStore(points).load(what.settings.objective());
      EXPECT_EQ(outcome.summary.score, score_of(graph, what.settings.objective(), outcome.chosen));
      EXPECT_LT(outcome.summary.random_score, outcome.summary.score);
      if (what.settings.use_bounding) {
        EXPECT_GT(outcome.summary.accepted + outcome.summary.discarded, 500U);
        std::uint64_t records = 0;
        for (const ResourceUsage& usage : outcome.summary.workers) records += usage.records;
        if (!what.settings.resample_edges) {
          EXPECT_GT(records, 0U);
        }
      }
      const std::string& digest = digests.try_emplace(name, outcome.summary.digest).first->second;
      EXPECT_EQ(outcome.summary.digest, digest);
    }
  }
}

TEST_F(SelectionRunTest, AWorkerMayDieBeforeAnyCall) {
  SelectionPlan what = plan("k");
  what.settings.use_bounding = true;
  what.settings.utility = 20;
  const std::vector<PointId> chosen = expected(what);
  std::size_t calls = 0;
  {
    LocalWorkers local(3);
    local.before_call = [&] { ++calls; };
    ASSERT_EQ(run(local, what).chosen, chosen);
  }
  for (std::size_t at = 1; at <= calls; at += 1 + calls / 6) {
    SCOPED_TRACE(fmt::format("call {} of {}", at, calls));
    LocalWorkers local(3);
    std::size_t call = 0;
    local.before_call = [&] {
      if (++call == at) local.kill(at % 3);
    };
    const Outcome outcome = run(local, what);
    ASSERT_EQ(outcome.chosen, chosen);
    EXPECT_EQ(outcome.summary.recoveries, 1U);
  }
}

TEST_F(SelectionRunTest, AWorkerMayDieWhileResultsAreRead) {
  const SelectionPlan what = plan("v");
  LocalWorkers local(3);
  SelectionRun run(local, what, {});
  run.run();
  std::vector<PointId> chosen;
  run.each_result([&](const ResultPoint& point) {
    if (chosen.empty()) local.kill(2);
    chosen.push_back(point.id);
  });
  EXPECT_EQ(chosen, expected(what));
}

TEST_F(SelectionRunTest, ADriverGoesOnWhereTheOneBeforeItEnded) {
  SelectionPlan what = plan("d");
  what.settings.use_bounding = true;
  what.settings.utility = 20;
  const std::vector<PointId> chosen = expected(what);
  LocalWorkers local(2);
  ASSERT_EQ(run(local, what).chosen, chosen);
  const std::vector<SelectionProgress> all = std::exchange(kept, {});
  ASSERT_GT(all.size(), 5U);
  for (std::size_t i = 0; i < all.size(); i += 1 + all.size() / 4) {
    // Stop after `i` saves, and continue with another driver and other workers.
    std::size_t seen = 0;
    LocalWorkers first(2);
    SelectionRun interrupted(first, what, {.save_progress = [&](const SelectionProgress&) {
                               if (seen++ == i) throw Error(ErrorCode::kCancelled, "enough");
                             }});
    EXPECT_EQ(test::error_of([&] { interrupted.run(); }).message(), "enough");
    LocalWorkers second(3);
    ASSERT_EQ(run(second, what, {}, all[i]).chosen, chosen) << "after " << i;
    // Saved progress is ignored if its files do not exist.
    std::filesystem::remove_all(what.settings.scratch);
    ASSERT_EQ(run(second, what, {}, all[i]).chosen, chosen) << "after " << i << ", without files";
  }
}

TEST_F(SelectionRunTest, RefusesACountThatCannotBe) {
  LocalWorkers local(2);
  SelectionPlan what = plan("r");
  what.settings.count = 2001;
  EXPECT_EQ(test::error_of([&] { run(local, what); }).message(),
            "2001 of 2000 points cannot be chosen; choose from 1 to all of them");
}

}  // namespace
}  // namespace weft::apps
