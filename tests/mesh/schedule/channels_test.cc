#include "mesh/schedule/channels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"

namespace weft::mesh {
namespace {

using testing::HasSubstr;

struct Lowered {
  Schedule schedule;
  std::vector<StageEdge> edges;
  LoweredSchedule lists;
};

Lowered lowered(const std::string& name, int p, int m, TransferOrder order) {
  Lowered result{make_schedule({name, p, m, 0, 0}), {}, {}};
  result.edges = chain_edges(result.schedule.stages);
  result.lists = lower(result.schedule, result.edges, order);
  return result;
}

bool finishes(const std::string& name, int p, ChannelModel model) {
  return find_deadlock(lowered(name, p, 4 * p, TransferOrder::kBeforeUse).lists, model).empty();
}

TEST(Channels, GpipeFinishesOnAnyKind) {
  for (const int p : {2, 4, 8}) {
    for (const ChannelModel model : kChannelModels)
      EXPECT_TRUE(finishes("gpipe", p, model)) << p << to_string(model);
  }
}

TEST(Channels, BlockingTransfersBesideTheirUseLockAllOthers) {
  for (const int p : {2, 4, 8}) {
    for (const std::string name : {"1f1b", "eager-1f1b", "zb-h1", "zb-h2", "interleaved-1f1b",
                                   "breadth-first", "zb-v", "dualpipe-v"}) {
      EXPECT_FALSE(finishes(name, p, ChannelModel::kBlocking)) << name << p;
      EXPECT_FALSE(finishes(name, p, ChannelModel::kOneStream)) << name << p;
    }
  }
}

TEST(Channels, ALanePerKindIsEnoughForOneStagePerActorOnly) {
  for (const int p : {2, 4, 8}) {
    for (const std::string name : {"1f1b", "eager-1f1b", "zb-h1", "zb-h2"})
      EXPECT_TRUE(finishes(name, p, ChannelModel::kPerKind)) << name << p;
    for (const std::string name : {"interleaved-1f1b", "breadth-first", "zb-v", "dualpipe-v"}) {
      EXPECT_FALSE(finishes(name, p, ChannelModel::kPerKind)) << name << p;
    }
  }
}

TEST(Channels, ALanePerPeerIsNotEnoughForAV) {
  // Activations and gradients of mirrored stages go in the same direction between the same two
  // actors, but in different orders at the two ends.
  for (const int p : {2, 4, 8}) {
    for (const std::string name :
         {"1f1b", "eager-1f1b", "zb-h1", "zb-h2", "interleaved-1f1b", "breadth-first"}) {
      EXPECT_TRUE(finishes(name, p, ChannelModel::kPerPeer)) << name << p;
    }
    EXPECT_FALSE(finishes("zb-v", p, ChannelModel::kPerPeer)) << p;
    EXPECT_EQ(finishes("dualpipe-v", p, ChannelModel::kPerPeer), p == 2) << p;
  }
}

TEST(Channels, LanesPerEdgeNeedNoBuffersWhateverTheSchedule) {
  for (const NamedSchedule& named : named_schedules()) {
    for (const int p : {1, 2, 4, 8}) {
      const auto [schedule, edges, lists] =
          lowered(std::string(named.name), p, 4 * p, TransferOrder::kBeforeUse);
      EXPECT_EQ(find_deadlock(lists, ChannelModel::kPerEdge), "") << named.name << p;
      EXPECT_EQ(find_deadlock(lists, ChannelModel::kPerPeerDirectionAndKind), "")
          << named.name << p;
    }
  }
}

TEST(Channels, OneTotalOrderNeverLocks) {
  for (const NamedSchedule& named : named_schedules()) {
    for (const int p : {2, 4, 8}) {
      const auto lists =
          lowered(std::string(named.name), p, 2 * p + 1, TransferOrder::kTotalOrder).lists;
      for (const ChannelModel model : kChannelModels)
        EXPECT_EQ(find_deadlock(lists, model), "") << named.name << p << to_string(model);
    }
  }
}

TEST(Channels, SmallestBufferUnderBlocking) {
  const auto smallest = [](const std::string& name, int p, int m) {
    return min_buffers(lowered(name, p, m, TransferOrder::kBeforeUse).lists,
                       ChannelModel::kBlocking, m);
  };
  for (const int p : {2, 4, 8}) {
    EXPECT_EQ(smallest("gpipe", p, 4 * p), 0);
    for (const std::string name :
         {"1f1b", "eager-1f1b", "zb-h1", "zb-h2", "interleaved-1f1b", "zb-v", "dualpipe-v"}) {
      EXPECT_EQ(smallest(name, p, 4 * p), 1) << name << p;
    }
    EXPECT_EQ(smallest("breadth-first", p, 4 * p), 4) << p;
  }
}

TEST(Channels, ReceivesThatBlockLaterSendsOnOneStreamAreShownAsACycle) {
  // Two stages with one queue of transfers each. Actor 1 queues the receive of microbatch 1 before
  // it sends the gradient of microbatch 0. Actor 0 waits for that gradient before it makes
  // microbatch 1.
  const Schedule schedule = read_schedule("0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1\n", "x").schedule;
  LoweredSchedule lists = lower(schedule, chain_edges(2), TransferOrder::kBeforeUse);
  EXPECT_EQ(find_deadlock(lists, ChannelModel::kOneStream), "");
  std::vector<Operation>& row = lists[1];
  const auto send = std::find_if(row.begin(), row.end(),
                                 [](const Operation& one) { return to_string(one) == "1SEND_B0"; });
  const auto receive = std::find_if(
      row.begin(), row.end(), [](const Operation& one) { return to_string(one) == "1RECV_F1"; });
  std::iter_swap(send, receive);
  EXPECT_THAT(find_deadlock(lists, ChannelModel::kOneStream), HasSubstr("1SEND_B0 on 1"));
  EXPECT_EQ(find_deadlock(lists, ChannelModel::kPerKind), "");
}

}  // namespace
}  // namespace weft::mesh
