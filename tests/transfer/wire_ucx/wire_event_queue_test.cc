#include "transfer/wire_ucx/internal/wire_event_queue.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "transfer/wire_ucx/internal/request_pool.h"

namespace weft::transfer {
namespace {

using testing::ElementsAre;

/// Owner that pushes another event while the first one is reported.
class PushingOwner final : public WireEvents {
 public:
  explicit PushingOwner(WireEventQueue& queue) : queue_(queue) {}
  void message_arrived(const Message&) override {}
  void send_finished(Token token, const Outcome<void>&) override {
    seen.push_back("send " + std::to_string(token));
    if (token == 1) queue_.push(ReceiveFinished{7, {}});
  }
  void receive_finished(Token token, const Outcome<void>&) override {
    seen.push_back("receive " + std::to_string(token));
  }
  void peer_lost(DeviceId peer, const Error&) override {
    seen.push_back("lost " + std::to_string(peer.value()));
  }
  void message_refused(std::optional<DeviceId>, std::string_view) override {}

  std::vector<std::string> seen;

 private:
  WireEventQueue& queue_;
};

TEST(WireEventQueue, ReportsEventsInOrderAlsoThoseAddedMeanwhile) {
  WireEventQueue queue;
  PushingOwner owner(queue);
  queue.push(SendFinished{1, {}});
  queue.push(PeerLost{DeviceId(3), Error(ErrorCode::kPeerDied, "it died")});
  EXPECT_EQ(queue.dispatch(owner), 3);
  EXPECT_THAT(owner.seen, ElementsAre("send 1", "lost 3", "receive 7"));
  EXPECT_TRUE(queue.empty());
}

TEST(WireEventQueue, DropsEventsOnceClosed) {
  WireEventQueue queue;
  PushingOwner owner(queue);
  queue.close();
  queue.push(SendFinished{1, {}});
  EXPECT_EQ(queue.dispatch(owner), 0);
}

TEST(RequestPool, ReusesRequestsWhoseAddressesStay) {
  RequestPool<int> pool;
  int& first = pool.take();
  int& second = pool.take();
  EXPECT_NE(&first, &second);
  pool.give_back(first);
  EXPECT_EQ(&pool.take(), &first);
}

}  // namespace
}  // namespace weft::transfer
