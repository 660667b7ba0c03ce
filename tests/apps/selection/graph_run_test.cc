// Tests graphs built by actors, over real sockets and UCX, against the comparison of all pairs, for
// any number of workers and after deaths.
#include "apps/selection/graph_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "apps/selection/greedy.h"
#include "apps/selection/point_store.h"
#include "core/base/philox.h"
#include "tests/apps/selection/exact_neighbours.h"
#include "tests/apps/selection/local_workers.h"
#include "tests/apps/selection/npy_writing.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using LocalWorkers = test::LocalWorkers<GraphWorker>;

constexpr std::size_t kVectors = 3000, kLength = 12, kNearest = 5;

/// Returns vectors around 40 random centres.
std::vector<float> clustered_vectors() {
  PhiloxStream random(5);
  const auto uniform = [&] { return 2 * uniform_float(random() >> 32) - 1; };
  std::vector<float> centres(40 * kLength), values(kVectors * kLength);
  for (float& value : centres) value = uniform();
  for (std::size_t i = 0; i < kVectors; ++i) {
    const std::size_t centre = random.below(40);
    for (std::size_t d = 0; d < kLength; ++d)
      values[i * kLength + d] = centres[centre * kLength + d] + 0.5F * uniform();
  }
  return values;
}

class GraphRunTest : public testing::Test {
 protected:
  GraphRunTest() {
    test::write_npy(folder / "vectors.npy", kLength, vectors);
    std::vector<double> utilities(kVectors);
    for (std::size_t i = 0; i < kVectors; ++i) utilities[i] = 7 + static_cast<double>(i % 5) / 4;
    test::write_npy(folder / "utilities.npy", 1, utilities);
    normalise_vectors(vectors, kLength, "vectors");
  }
  std::string path(const std::string& name) const { return (folder / name).string(); }
  GraphPlan plan(const std::string& name) const {
    GraphPlan plan;
    plan.settings.input.vectors = path("vectors.npy");
    plan.settings.input.utilities = path("utilities.npy");
    plan.settings.store = path(name);
    plan.settings.scratch = path(name + ".scratch");
    plan.settings.count = kNearest;
    plan.settings.shards = 7;
    plan.settings.memory = 64 << 10;  // small, so that cells form several groups
    plan.settings.exchange_budget = 1 << 20;
    return plan;
  }
  GraphPlan cells(const std::string& name) const {
    GraphPlan cells = plan(name);
    cells.exact_below = 0;
    cells.cells = 50;
    cells.probes = 1;
    cells.recall = 0.98;
    return cells;
  }
  GraphSummary run(LocalWorkers& workers, const GraphPlan& what) {
    told.clear();
    return GraphRun(workers, what,
                    {.on_progress = [&](const std::string& line) { told += line + "\n"; }})
        .run();
  }
  /// Returns the names and contents of all files of a store.
  std::string bytes(const std::string& name) const {
    std::map<std::filesystem::path, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder / name)) {
      std::ifstream stream(entry.path(), std::ios::binary);
      files[entry.path().filename()] = {std::istreambuf_iterator<char>(stream), {}};
    }
    std::string all;
    for (const auto& [file, content] : files) all += file.string() + content;
    return all;
  }
  NeighbourLists lists_of(const std::string& name) const {
    NeighbourLists lists;
    const PointStore store(folder / name);
    for (std::uint32_t shard = 0; shard < store.layout().shards; ++shard) {
      PointShardReader reader = store.read(shard);
      while (const StoredPoint* point = reader.next())
        lists.emplace_back(point->neighbours.begin(), point->neighbours.end());
    }
    return lists;
  }

  const test::ScratchFolder scratch;
  const std::filesystem::path folder = scratch.path();
  std::vector<float> vectors = clustered_vectors();
  std::string told;
};

TEST_F(GraphRunTest, FewPointsAreAllComparedByAnyNumberOfWorkers) {
  std::string first;
  for (const std::size_t workers : {1, 2, 3}) {
    LocalWorkers local(workers);
    const std::string name = fmt::format("exact-{}", workers);
    const GraphSummary summary = run(local, plan(name));
    EXPECT_TRUE(summary.exact);
    EXPECT_EQ(summary.compared.pairs, kVectors * kVectors);
    if (workers == 1) {
      const NeighbourLists expected = exact_neighbours(vectors, kLength, kNearest);
      EXPECT_EQ(lists_of(name), expected);
      std::uint64_t edges = 0;
      for (const auto& list : expected) edges += list.size();
      EXPECT_EQ(summary.directed_edges, edges);
      const PointStore store(folder / name);
      PointShardReader reader = store.read(0);
      for (std::size_t i = 0; i < 5; ++i)
        EXPECT_EQ(reader.next()->utility, fraction_of(static_cast<double>(i) / 4));
      first = bytes(name);
    }
    EXPECT_EQ(bytes(name), first) << workers;
  }
}

TEST_F(GraphRunTest, LooksIntoMoreCellsUntilTheRecallIsReachedByAnyNumberOfWorkers) {
  std::string first;
  const NeighbourLists exact = exact_neighbours(vectors, kLength, kNearest);
  for (const std::size_t workers : {1, 2, 3}) {
    LocalWorkers local(workers);
    const std::string name = fmt::format("cells-{}", workers);
    const GraphSummary summary = run(local, cells(name));
    EXPECT_FALSE(summary.exact);
    EXPECT_GE(summary.recall, 0.98);
    EXPECT_EQ(summary.samples, GraphWorker::kSamples);
    EXPECT_EQ(summary.cells, 50U);
    EXPECT_GT(summary.probes, 1U);
    EXPECT_LT(summary.probes, 50U);
    EXPECT_LT(summary.compared.pairs, kVectors * kVectors * 2 / 3);
    EXPECT_THAT(told, AllOf(HasSubstr("each point in its 1 nearest of 50 cells: recall 0."),
                            HasSubstr(fmt::format("recall {:.4f}", summary.recall))));
    if (workers == 1) {
      first = bytes(name);
      // The actual recall is about that of the samples.
      std::uint64_t there = 0, all = 0;
      const NeighbourLists lists = lists_of(name);
      for (std::size_t i = 0; i < kVectors; ++i) {
        all += exact[i].size();
        for (const Neighbour& neighbour : exact[i])
          there += std::ranges::binary_search(lists[i], neighbour) ? 1 : 0;
      }
      EXPECT_NEAR(static_cast<double>(there) / static_cast<double>(all), summary.recall, 0.01);
    }
    EXPECT_EQ(bytes(name), first) << workers;
  }
}

TEST_F(GraphRunTest, EqualCentroidsGiveNoNeighbourTwice) {
  const std::vector<float> distinct = vectors;
  // 25 vectors have 100 copies each, and 50 have 10, so most cells are empty.
  for (std::size_t i = 0; i < kVectors; ++i) {
    const std::size_t like = i % 6 == 5 ? 25 + i / 6 % 50 : i % 25;
    std::copy_n(distinct.begin() + static_cast<std::ptrdiff_t>(like * kLength), kLength,
                vectors.begin() + static_cast<std::ptrdiff_t>(i * kLength));
  }
  test::write_npy(folder / "vectors.npy", kLength, vectors);
  LocalWorkers local(1);
  GraphPlan several = cells("equal");
  several.settings.count = 15;
  several.recall = 1;
  EXPECT_GT(run(local, several).probes, 2U);
  // Reading a store checks its lists.
  EXPECT_EQ(lists_of("equal").size(), kVectors);
}

TEST_F(GraphRunTest, OfEqualPointsOneIsChosenBeforeAnyCopyByAnyNumberOfWorkers) {
  constexpr std::size_t kDistinct = 600;
  const auto like = [](std::size_t point) {  // 48 copies of each of the first 50
    return point < kDistinct ? point : point % 50;
  };
  for (std::size_t i = kDistinct; i < kVectors; ++i)
    std::copy_n(vectors.begin() + static_cast<std::ptrdiff_t>(like(i) * kLength), kLength,
                vectors.begin() + static_cast<std::ptrdiff_t>(i * kLength));
  test::write_npy(folder / "vectors.npy", kLength, vectors);
  for (const bool compares_all : {true, false}) {
    std::string first;
    for (const std::size_t workers : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} workers", workers));
      const std::string name = fmt::format("{}-{}", compares_all ? "all" : "cells", workers);
      GraphPlan what = compares_all ? plan(name) : cells(name);
      what.settings.input.utilities.clear();
      LocalWorkers local(workers);
      run(local, what);
      EXPECT_THAT(told, HasSubstr("2400 of 3000 points are copies of others"));
      if (first.empty()) first = bytes(name);
      EXPECT_EQ(bytes(name), first);
    }
    // A point has fewer neighbours than copies, and still all distinct points are chosen.
    const Objective objective = Objective::of_alpha(900);
    const PointGraph graph =
        PointStore(folder / (compares_all ? "all-1" : "cells-1")).load(objective);
    std::set<std::size_t> chosen;
    for (const ChosenPoint& point : choose_greedily(graph, objective, kDistinct, 1))
      chosen.insert(like(point.row));
    EXPECT_EQ(chosen.size(), kDistinct);
  }
}

TEST_F(GraphRunTest, OfEqualPointsTheMostUsefulIsNoCopy) {
  for (std::size_t i = 0; i < kVectors; ++i)
    std::copy_n(vectors.begin(), kLength,
                vectors.begin() + static_cast<std::ptrdiff_t>(i * kLength));
  test::write_npy(folder / "vectors.npy", kLength, vectors);
  std::vector<double> utilities(kVectors, 0.5);
  utilities[1234] = 0.75;
  test::write_npy(folder / "utilities.npy", 1, utilities);
  LocalWorkers local(2);
  run(local, plan("one"));
  const Objective objective = Objective::of_alpha(900);
  const PointGraph graph = PointStore(folder / "one").load(objective);
  EXPECT_EQ(choose_greedily(graph, objective, 1, 1).front().row, 1234U);
}

TEST_F(GraphRunTest, AnInputThatIsWrittenWhileItIsReadIsNamed) {
  LocalWorkers local(2);
  int calls = 0;
  local.before_call = [&] {
    if (++calls != 4) return;
    const auto file = folder / "vectors.npy";
    std::filesystem::last_write_time(
        file, std::filesystem::last_write_time(file) + std::chrono::seconds(1));
  };
  EXPECT_THAT(test::error_of([&] { run(local, plan("written")); }).message(),
              HasSubstr("vectors.npy was modified while it was read"));
}

TEST_F(GraphRunTest, AllCellsAreTheExactGraph) {
  GraphPlan what = cells("all");
  what.cells = 7;
  what.probes = 7;
  what.settings.floor = fraction_of(0.9);
  LocalWorkers local(2);
  EXPECT_EQ(run(local, what).recall, 1);
  EXPECT_EQ(lists_of("all"), exact_neighbours(vectors, kLength, kNearest, fraction_of(0.9)));
}

TEST_F(GraphRunTest, IsNotMadeAgainUnlessSomethingIsAnother) {
  LocalWorkers local(2);
  GraphPlan what = cells("again");
  const GraphSummary made = run(local, what);
  EXPECT_FALSE(made.was_reused);
  const std::string before = bytes("again");
  const GraphSummary again = run(local, what);
  EXPECT_TRUE(again.was_reused);
  EXPECT_EQ(again.recall, made.recall);
  EXPECT_EQ(again.directed_edges, made.directed_edges);
  EXPECT_EQ(bytes("again"), before);
  // An interrupted build is repeated, and gives the same bytes.
  std::filesystem::remove(folder / "again" / "points.json");
  EXPECT_FALSE(run(local, what).was_reused);
  EXPECT_EQ(bytes("again"), before);
  what.settings.input.utilities.clear();
  EXPECT_FALSE(run(local, what).was_reused);
  EXPECT_NE(bytes("again"), before);
}

TEST_F(GraphRunTest, AWorkerMayDieBeforeAnyCall) {
  std::size_t calls = 0;
  {
    LocalWorkers local(3);
    local.before_call = [&] { ++calls; };
    run(local, cells("whole"));
  }
  for (std::size_t at = 1; at < calls; at += 1 + calls / 7) {
    SCOPED_TRACE(fmt::format("call {} of {}", at, calls));
    LocalWorkers local(3);
    std::size_t call = 0;
    local.before_call = [&] {
      if (++call == at) local.kill(at % 3);
    };
    const std::string name = fmt::format("killed-{}", at);
    EXPECT_EQ(run(local, cells(name)).recoveries, 1U);
    EXPECT_EQ(bytes(name), bytes("whole"));
  }
}

TEST_F(GraphRunTest, AnotherDriverGoesOnWhereOneHasEnded) {
  struct Ended {};
  {
    LocalWorkers local(2);
    run(local, cells("whole"));
  }
  for (const std::size_t end : {1, 2}) {
    const std::string name = fmt::format("ended-{}", end);
    std::vector<GraphProgress> kept;
    const auto drive = [&](const GraphProgress& from, std::size_t until) {
      LocalWorkers local(2);
      told.clear();
      return GraphRun(local, cells(name),
                      {.on_progress = [&](const std::string& line) { told += line + "\n"; },
                       .save_progress =
                           [&](const GraphProgress& now) {
                             kept.push_back(now);
                             if (kept.size() == until) throw Ended();
                           }})
          .run(from);
    };
    EXPECT_THROW(drive({}, end), Ended);
    const GraphProgress last = kept.back();
    drive(last, 0);
    EXPECT_THAT(told, Not(HasSubstr("50 cells for 3000 points")));
    EXPECT_EQ(told.find("each point in its 1 nearest") == std::string::npos, end == 2);
    EXPECT_THAT(told, HasSubstr("each point in its 2 nearest"));
    EXPECT_EQ(bytes(name), bytes("whole"));
    // Saved progress is ignored if its files do not exist.
    std::filesystem::remove(folder / name / "points.json");
    std::filesystem::remove_all(folder / (name + ".scratch"));
    drive(last, 0);
    EXPECT_THAT(told, HasSubstr("the state of the earlier run no longer exists in scratch"));
    EXPECT_THAT(told, HasSubstr("50 cells for 3000 points"));
    EXPECT_EQ(bytes(name), bytes("whole"));
    // Saved progress of another graph is ignored.
    GraphProgress other = last;
    other.digest = "another";
    std::filesystem::remove(folder / name / "points.json");
    drive(other, 0);
    EXPECT_THAT(told, HasSubstr("50 cells for 3000 points"));
    EXPECT_EQ(bytes(name), bytes("whole"));
  }
}

TEST_F(GraphRunTest, NamesFileAndRowOfWhatIsWrong) {
  LocalWorkers local(2);
  const auto refused = [&](const GraphPlan& what) {
    return test::error_of([&] { run(local, what); }).message();
  };
  const auto with_vector = [&](std::size_t row, float value) {
    std::vector<float> wrong = clustered_vectors();
    std::fill_n(wrong.begin() + static_cast<std::ptrdiff_t>(row * kLength), kLength, value);
    test::write_npy(folder / "wrong.npy", kLength, wrong);
    GraphPlan what = plan("wrong");
    what.settings.input.vectors = path("wrong.npy");
    return refused(what);
  };
  EXPECT_THAT(with_vector(2999, 0), HasSubstr("wrong.npy, row 2999: the vector is zero"));
  EXPECT_THAT(with_vector(17, NAN), HasSubstr("wrong.npy, row 17: number 0 is no number (NaN)"));
  EXPECT_THAT(with_vector(1700, std::numeric_limits<float>::infinity()),
              HasSubstr("wrong.npy, row 1700: number 0 is infinite"));
  std::filesystem::resize_file(folder / "wrong.npy", 5000);
  GraphPlan what = plan("wrong");
  what.settings.input.vectors = path("wrong.npy");
  EXPECT_THAT(refused(what), HasSubstr("its length is not that of 3000 rows of 12"));
  test::write_npy(folder / "wrong.npy", kLength, std::vector<float>());
  EXPECT_THAT(refused(what), HasSubstr("wrong.npy has 0 points"));

  what = plan("wrong");
  what.settings.input.utilities = path("wrong.npy");
  test::write_npy(folder / "wrong.npy", 1, std::vector<float>(2999));
  EXPECT_THAT(refused(what), HasSubstr("wrong.npy has 2999 rows, but"));
  std::vector<float> utilities(kVectors);
  utilities[42] = NAN;
  test::write_npy(folder / "wrong.npy", 1, utilities);
  EXPECT_THAT(refused(what), HasSubstr("wrong.npy, row 42: the utility is no number (NaN)"));

  what = plan("wrong");
  what.settings.count = kVectors;
  EXPECT_THAT(refused(what),
              HasSubstr("graph.neighbors is 3000, but there are 3000 points: set it to 1 to 2999"));
  EXPECT_FALSE(std::filesystem::exists(folder / "wrong" / "points.json"));
}

TEST_F(GraphRunTest, TakesGivenNeighboursThatBothSidesHave) {
  LocalWorkers local(2);
  GraphPlan what = plan("given");
  what.settings.input = {"", "", path("ids.npy"), path("similarities.npy")};
  using Ids = std::vector<std::int64_t>;
  using Similarities = std::vector<float>;
  const auto made = [&](const Ids& ids, const Similarities& similarities) {
    test::write_npy(folder / "ids.npy", 2, ids);
    test::write_npy(folder / "similarities.npy", 2, similarities);
    run(local, what);
  };
  const auto refused = [&](const Ids& ids, const Similarities& similarities) {
    return test::error_message(ErrorCode::kInvalidArgument, [&] { made(ids, similarities); });
  };
  // Edges 0 - 1 - 2; point 3 has none.
  const Ids ids = {1, -1, 2, 0, -1, 1, -1, -1};
  const Similarities similarities = {0.5F, NAN, 0.25F, 0.5F, NAN, 0.25F, NAN, NAN};
  made(ids, similarities);
  const std::uint16_t half = fraction_of(0.5), quarter = fraction_of(0.25);
  EXPECT_EQ(lists_of("given"),
            (NeighbourLists{{{1, half}}, {{0, half}, {2, quarter}}, {{1, quarter}}, {}}));

  const auto changed = [](auto values, std::size_t at, auto value) {
    values[at] = value;
    return values;
  };
  EXPECT_THAT(
      refused(changed(ids, 0, -1), similarities),
      HasSubstr("ids.npy, row 0: the neighbour 1 is missing, although that row lists row 0"));
  EXPECT_THAT(
      refused(changed(ids, 7, 2), changed(similarities, 7, 0.5F)),
      HasSubstr("ids.npy, row 2: the neighbour 3 is missing, although that row lists row 2"));
  EXPECT_THAT(refused(ids, changed(similarities, 0, 0.75F)),
              HasSubstr("give different similarities for their edge"));
  EXPECT_THAT(refused(ids, changed(similarities, 0, -0.5F)),
              HasSubstr("similarities.npy, row 0: the similarity to 1 is -0.5"));
  EXPECT_THAT(refused(ids, changed(similarities, 5, NAN)),
              HasSubstr("similarities.npy, row 2: the similarity to 1 is nan"));
  EXPECT_THAT(refused(changed(ids, 7, 4), similarities),
              HasSubstr("ids.npy, row 3: the neighbour 4 does not exist, as there are 4 points"));
  EXPECT_THAT(refused(changed(ids, 7, 3), similarities), HasSubstr("row 3: the point is its own"));
  EXPECT_THAT(refused(changed(ids, 1, 1), changed(similarities, 1, 0.5F)),
              HasSubstr("ids.npy, row 0: the neighbour 1 comes twice"));
}

}  // namespace
}  // namespace weft::apps
