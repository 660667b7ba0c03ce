#include "apps/select/select_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "apps/select_input/row_origin.h"
#include "apps/selection/generated_points.h"
#include "apps/selection/selection_worker.h"
#include "tests/apps/selection/local_workers.h"
#include "tests/support/scratch_folder.h"

namespace weft::apps {
namespace {

TEST(SelectResults, PathsFitInOneCellOfTheTable) {
  const test::ScratchFolder folder;
  const std::filesystem::path text = folder.path() / "a\tb\nc.txt";
  std::ofstream(text) << std::string(100, 'x');
  generate_points(folder.path() / "points", {.points = 20, .shards = 2, .seed = 1});
  PreparedInput prepared{.folder = folder.path(), .kind = InputKind::kTexts, .rows = 20};
  {
    std::ofstream places(prepared.places());
    for (std::uint64_t row = 0; row < prepared.rows; ++row)
      places << RowOrigin{.path = text.string(), .offset = 5 * row, .length = 5}.json() << "\n";
  }
  SelectionPlan plan;
  plan.settings.points = (folder.path() / "points").string();
  plan.settings.scratch = (folder.path() / "scratch").string();
  plan.settings.count = 3;
  plan.rounds = {.partitions = 1, .rounds = 1};
  test::LocalWorkers<SelectionWorker> workers(1);
  SelectionRun selection(workers, plan, {});
  selection.run();
  const SelectInput input{.path = text.string()};
  write_results(selection, 20, &input, &prepared, 1, folder.path());
  std::ifstream table(folder.path() / "chosen.tsv");
  std::string line;
  std::getline(table, line);  // titles
  for (int row = 0; row < 3; ++row) {
    ASSERT_TRUE(std::getline(table, line));
    EXPECT_THAT(line, testing::HasSubstr("/a\\tb\\nc.txt\t"));
    EXPECT_EQ(std::ranges::count(line, '\t'), 7) << line;
  }
  EXPECT_FALSE(std::getline(table, line));
}

}  // namespace
}  // namespace weft::apps
