// Hosts that join while another agent has their name.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>

#include "actors/agent/agent.h"
#include "actors/head/head.h"
#include "actors/system/system.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/system_options.h"

namespace weft::actors {
namespace {

using test::eventually;

/// Head whose host `w0` belongs to an agent that is connected and does not answer.
class Membership : public ::testing::Test {
 protected:
  Membership() {
    system.on_peer_disconnected([this](const ProcessRef& peer, const Error&, DisconnectCause how) {
      system.named<Head>(system.self(), "head")
          .tell<&Head::peer_disconnected>(peer.id, how == DisconnectCause::kDisconnected);
    });
    at = system.listen({"127.0.0.1", 0});
    const HeadEvents events{[](const ClusterEvent&) {}, [](const std::string&) {},
                            [](const std::string&) {}};
    own = system.host_with<Head>("head", [&](Context& context) {
      return std::make_unique<Head>(context, HeadConfig{at, scratch.path()}, events);
    });
    (void)holder.listen({"127.0.0.1", 0});
    // Calls wait until the actor is constructed.
    constructing = std::thread([this, test_ended = answers.get_future()]() mutable {
      try {
        (void)holder.host_with<Agent>("agent", [&](Context&) -> std::unique_ptr<Agent> {
          test_ended.wait();
          throw_error(ErrorCode::kCancelled, "the test ends");
        });
      } catch (const Error&) {
      }
    });
    (void)head_of(holder).call<&Head::join>(offer(41), AgentReport()).get();
  }
  ~Membership() override {
    answers.set_value();
    constructing.join();
  }
  ActorRef<Head> head_of(System& caller) { return caller.named<Head>(caller.connect(at), "head"); }
  HostRegistration offer(std::int64_t pid) const {
    HostRegistration offer;
    offer.name = "w0";
    offer.devices = 1;
    offer.pid = pid;
    return offer;
  }
  std::vector<HostStatus> hosts() { return own.call<&Head::status>().get().hosts; }

  test::ScratchFolder scratch;
  std::promise<void> answers;
  System system{test::system_options("head")}, holder{test::system_options("w0")};
  std::thread constructing;
  Address at;
  ActorRef<Head> own;
};

TEST_F(Membership, AnAgentThatEndsWhileTheHeadAsksTheHolderOfItsNameIsNoHost) {
  HostRegistration next = offer(42);
  next.replaces = holder.self().id;
  {
    System newcomer(test::system_options("w0"));
    const auto head = head_of(newcomer);
    auto joining = head.call<&Head::join>(next, AgentReport());
    (void)head.call<&Head::status>().get();  // returns once the head waits
  }
  EXPECT_TRUE(eventually([&] { return system.peers().size() == 1; }));
  // A slow machine may have used up the 2 s that the holder has to answer.
  system.declare_dead(holder.self().id, Error(ErrorCode::kPeerDied, "the test ends it"));
  EXPECT_TRUE(eventually([&] { return hosts().empty(); }, std::chrono::seconds(30)));
}

TEST_F(Membership, AnAgentThatIsThereTakesTheNameOfOneThatHasEnded) {
  HostRegistration next = offer(42);
  next.replaces = holder.self().id;
  System newcomer(test::system_options("w0"));
  auto joining = head_of(newcomer).call<&Head::join>(next, AgentReport());
  (void)head_of(newcomer).call<&Head::status>().get();
  system.declare_dead(holder.self().id, Error(ErrorCode::kPeerDied, "the test ends it"));
  EXPECT_FALSE(joining.get().name_holder);
  ASSERT_EQ(hosts().size(), 1u);
  EXPECT_EQ(hosts().at(0).offer.pid, 42);
}

}  // namespace
}  // namespace weft::actors
