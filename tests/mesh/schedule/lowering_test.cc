#include "mesh/schedule/lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "core/base/error.h"
#include "core/simulation/simulate_tasks.h"
#include "mesh/schedule/action_graph.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using testing::HasSubstr;

std::string text(const LoweredSchedule& lowered) {
  std::string result;
  for (const auto& row : lowered) {
    for (std::size_t i = 0; i < row.size(); ++i) result += (i == 0 ? "" : " ") + to_string(row[i]);
    result += "\n";
  }
  return result;
}

const char* kTwoStages = "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n";
// V-shaped schedule of four stages on two actors with split backwards.
const char* kV =
    "0F0,0F1,,3F0,3I0,3F1,3I1,0I0,3W0,0I1,3W1,0W0,0W1\n"
    ",1F0,2F0,1F1,2F1,2I0,1I0,2I1,1I1,2W0,2W1,1W0,1W1\n";

TEST(Lowering, TotalOrderPutsBothHalvesWhereTheTensorIsMade) {
  const Schedule schedule = read_schedule(kTwoStages, "two").schedule;
  EXPECT_EQ(text(lower(schedule, chain_edges(2), TransferOrder::kTotalOrder)),
            "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
            "1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1\n");
}

TEST(Lowering, BeforeUsePutsThemBesideTheirActions) {
  const Schedule schedule = read_schedule(kTwoStages, "two").schedule;
  EXPECT_EQ(text(lower(schedule, chain_edges(2), TransferOrder::kBeforeUse)),
            "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
            "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1\n");
}

TEST(Lowering, NeighboursOnOneActorSendNothing) {
  const Schedule schedule = read_schedule(kV, "v").schedule;
  const std::string lists = text(lower(schedule, chain_edges(4), TransferOrder::kTotalOrder));
  EXPECT_THAT(lists, testing::Not(HasSubstr("1SEND_F")));
  EXPECT_THAT(lists, HasSubstr("2SEND_F0"));
}

/// Lowers rows of cells as PyTorch does. In turn, each actor takes its row's next cell if the cell
/// is blank or its inputs exist. Both halves of a transfer are written when the tensor is made.
LoweredSchedule lower_rows(const std::vector<std::vector<std::optional<Action>>>& rows,
                           const Schedule& schedule) {
  const std::vector<StageEdge> edges = chain_edges(schedule.stages);
  const ActionGraph graph(schedule, edges);
  LoweredSchedule lowered(rows.size());
  std::vector<std::size_t> at(rows.size(), 0);
  std::set<int> ran;
  for (bool left = true; left;) {
    left = false;
    for (std::size_t actor = 0; actor < rows.size(); ++actor) {
      if (at[actor] == rows[actor].size()) continue;
      left = true;
      const std::optional<Action>& cell = rows[actor][at[actor]];
      if (!cell) {
        ++at[actor];
        continue;
      }
      const int node = *graph.find(cell->kind, cell->stage, cell->microbatch);
      const auto needs = graph.needs(node);
      if (!std::ranges::all_of(needs, [&](const ActionGraph::ActionDependency& need) {
            return ran.contains(need.node);
          }))
        continue;
      ran.insert(node);
      ++at[actor];
      lowered[actor].push_back({Operation::What::kRun, *cell});
      for (int user = 0; user < graph.size(); ++user) {
        for (const ActionGraph::ActionDependency& need : graph.needs(user)) {
          if (need.node != node || need.edge < 0 || graph.actor(user) == static_cast<int>(actor))
            continue;
          const bool backward = graph.action(user).kind != ActionKind::kForward;
          lowered[actor].push_back({Operation::What::kSend, *cell, need.edge, backward,
                                    cell->microbatch, graph.actor(user)});
          lowered[graph.actor(user)].push_back({Operation::What::kReceive, graph.action(user),
                                                need.edge, backward, cell->microbatch,
                                                static_cast<int>(actor)});
        }
      }
    }
  }
  return lowered;
}

/// Parses rows of cells. Idle cells are nullopt.
std::vector<std::vector<std::optional<Action>>> cells_of(const std::string& rows,
                                                         const Schedule& schedule) {
  std::vector<std::vector<std::optional<Action>>> result(schedule.actors.size());
  std::istringstream lines(rows);
  std::string line, cell;
  for (std::size_t actor = 0; actor < result.size() && std::getline(lines, line); ++actor) {
    std::istringstream cells(line);
    for (std::size_t next = 0; std::getline(cells, cell, ',');) {
      result[actor].push_back(cell.empty() ? std::nullopt
                                           : std::optional(schedule.actors[actor][next++]));
    }
  }
  return result;
}

/// Returns the number of ticks until all operations end, or -1 if they deadlock. Each operation
/// takes one tick. A receive runs in the tick of its send at the earliest.
int count_ticks(const LoweredSchedule& lowered) {
  TaskGraph tasks;
  std::map<std::tuple<int, bool, int>, TaskId> sends, receives;
  for (const std::vector<Operation>& actor : lowered) {
    TaskChain chain(tasks);
    for (const Operation& operation : actor) {
      const std::tuple tag(operation.edge, operation.backward, operation.microbatch);
      if (operation.what == Operation::What::kSend) sends[tag] = chain.append();
      if (operation.what == Operation::What::kReceive) receives[tag] = chain.append();
      chain.append(1);
    }
  }
  for (const auto& [tag, receive] : receives) {
    // A receive without a send waits for itself.
    tasks.add_dependency(receive, sends.contains(tag) ? sends[tag] : receive);
  }
  const TaskTimes times = simulate_tasks(tasks);
  return times.all_ended() ? static_cast<int>(std::ranges::max(times.end)) : -1;
}

TEST(Lowering, TickCountsArePyTorchs) {
  const auto ticks = [](const std::string& rows) {
    const Schedule schedule = read_schedule(rows, "x").schedule;
    return count_ticks(lower_rows(cells_of(rows, schedule), schedule));
  };
  EXPECT_EQ(ticks(kTwoStages), 11);
  EXPECT_EQ(ticks(kV), 24);
  const Schedule merged = merge_weight_gradients(make_schedule({"zb-h1", 2, 8, 2, 0}));
  EXPECT_EQ(ticks(write_schedule(merged, {}, ScheduleHeader::kNone)), 113);
}

TEST(Lowering, TotalOrderByTicksIsAsGood) {
  const auto ticks = [](const Schedule& schedule) {
    return count_ticks(lower(schedule, chain_edges(schedule.stages), TransferOrder::kTotalOrder));
  };
  EXPECT_EQ(ticks(read_schedule(kTwoStages, "two").schedule), 11);
  EXPECT_EQ(ticks(read_schedule(kV, "v").schedule), 24);
  EXPECT_EQ(ticks(make_schedule({"zb-h1", 2, 8, 2, 0})), 114);
}

TEST(Lowering, MergingJoinsOnlyNeighbours) {
  const Schedule schedule =
      merge_weight_gradients(read_schedule("0F0,0F1,0I0,0W0,0I1,1F0,0W1\n", "x").schedule);
  EXPECT_EQ(to_string(schedule), "actor 0: 0F0 0F1 0B0 0I1 1F0 0W1\n");
}

TEST(Lowering, ScheduleThatCannotFinishIsRefused) {
  const Schedule schedule = read_schedule("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "x").schedule;
  EXPECT_THAT([&] { lower(schedule, chain_edges(2), TransferOrder::kTotalOrder); },
              test::throws_error(ErrorCode::kInvalidArgument, "schedule 'x' cannot finish"));
}

TEST(Lowering, ListsThatStandStillHaveNoTicks) {
  LoweredSchedule lists =
      lower(read_schedule(kTwoStages, "two").schedule, chain_edges(2), TransferOrder::kBeforeUse);
  std::erase_if(lists[0], [](const Operation& one) { return to_string(one) == "0SEND_F1"; });
  EXPECT_EQ(count_ticks(lists), -1);
}

TEST(Lowering, HalvesWithoutTheOtherAreFound) {
  const LoweredSchedule good =
      lower(read_schedule(kTwoStages, "two").schedule, chain_edges(2), TransferOrder::kBeforeUse);
  EXPECT_EQ(find_unmatched_half(good), "");
  LoweredSchedule lists = good;
  std::erase_if(lists[0], [](const Operation& one) { return to_string(one) == "0SEND_F1"; });
  EXPECT_EQ(find_unmatched_half(lists), "actor 1: 1RECV_F1 of edge 0 has no send on actor 0");
  lists = good;
  std::erase_if(lists[0], [](const Operation& one) { return to_string(one) == "0RECV_B0"; });
  EXPECT_EQ(find_unmatched_half(lists), "actor 1: 1SEND_B0 of edge 0 has no receive on actor 0");
  lists = good;
  lists[0].push_back(lists[0][1]);
  EXPECT_EQ(find_unmatched_half(lists), "actor 0: 0SEND_F0 of edge 0 occurs twice");
}

}  // namespace
}  // namespace weft::mesh
