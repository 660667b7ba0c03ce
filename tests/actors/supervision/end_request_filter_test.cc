#include <gtest/gtest.h>

#include "actors/supervision/signal_handler.h"

namespace weft::actors {
namespace {

using std::chrono::milliseconds;
using Kind = EndRequestFilter::Kind;

const ReceivedSignal kByParent{SIGINT, 7, true};
const ReceivedSignal kByOthers{SIGTERM, 9, false};

TEST(EndRequestFilter, ASecondWishComesMoreThanASecondAfterTheFirst) {
  EndRequestFilter requests(EndRequestFilter::Parent::kNone);
  const TimePoint begun(milliseconds(5));
  EXPECT_EQ(requests.add(kByOthers, begun), Kind::kFirst);
  EXPECT_EQ(requests.add(kByParent, begun), Kind::kEcho);
  EXPECT_EQ(requests.add(kByOthers, begun + milliseconds(999)), Kind::kEcho);
  EXPECT_EQ(requests.add(kByParent, begun + milliseconds(1000)), Kind::kSecond);
}

TEST(EndRequestFilter, AParentThatKillsNeverMeansASecondWish) {
  EndRequestFilter requests(EndRequestFilter::Parent::kKills);
  const TimePoint begun(milliseconds(5));
  EXPECT_EQ(requests.add(kByOthers, begun), Kind::kFirst);
  EXPECT_EQ(requests.add(kByParent, begun + milliseconds(5000)), Kind::kEcho);
  EXPECT_EQ(requests.add(kByOthers, begun + milliseconds(5000)), Kind::kSecond);
}

TEST(ReceivedSignal, TheThreeThatTerminalsAndOperatorsSendAskToEnd) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    EXPECT_TRUE(ReceivedSignal{signal}.asks_to_end());
  for (const int signal : {kCheckpointSignal, kParentShutsDown, SIGCHLD})
    EXPECT_FALSE(ReceivedSignal{signal}.asks_to_end());
}

}  // namespace
}  // namespace weft::actors
