// Names of an owner's actors on their way to the head, also while it is away.
#include "actors/cluster/published_actors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "actors/head/head.h"
#include "actors/head/state_store.h"
#include "actors/system/system.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;

/// Head, and an owner that publishes names.
class PublishedActorsTest : public ::testing::Test {
 protected:
  PublishedActorsTest() {
    start_head();
    owner.on_peer_eof(
        [this](const ProcessRef& peer) { link->report_peer_loss(peer, "disconnected"); });
    owner.on_peer_disconnected([this](const ProcessRef& peer, const Error&, DisconnectCause) {
      link->report_peer_loss(peer, "disconnected");
    });
    link.emplace(owner, at, HeadLink::LinkCallbacks{[this](const ProcessRef& found) {
                   JoinReply joined = owner.named<Head>(found, "head")
                                          .call<&Head::register_owner>(OwnerRegistration{"r", 43})
                                          .get();
                   names->send_all();
                   return joined;
                 }});
    names.emplace(owner, *link);
    link->join();
  }
  ~PublishedActorsTest() override {
    names.reset();
    link.reset();
  }
  void start_head() {
    SystemOptions options = test::system_options("head");
    options.is_head = true;
    head = std::make_unique<System>(options);
    at = head->listen({"127.0.0.1", at.port});
    const HeadEvents events{[this](const ClusterEvent&) {
                              if (!holds_next_event.exchange(false)) return;
                              held.set_value();
                              go_on.get_future().wait();
                            },
                            [](const std::string&) {}, [](const std::string&) {}};
    head->host_with<Head>("head", [&](Context& context) {
      return std::make_unique<Head>(context, HeadConfig{at, scratch.path()}, events);
    });
  }
  /// Ends the head, and waits until the owner has noticed.
  void end_head() {
    const std::uint64_t before = link->losses();
    head.reset();
    while (link->losses() == before) std::this_thread::sleep_for(1ms);
  }
  void await_head() {
    (void)link->reach(60s);
    names->wait_until_confirmed();
  }
  void publish(const std::string& name, std::uint64_t process) {
    names->publish({name, process}, actors(name, process));
  }
  static SpawnedActors actors(const std::string& name, std::uint64_t process) {
    SpawnedActors actors{{"test.counter", 1, 7}, name, MeshShape(), {}};
    actors.addresses.push_back(std::make_shared<const ActorAddress>(
        ActorAddress{{ProcessId(process), "p", {}}, ActorId(3), name, {}}));
    return actors;
  }
  /// Returns the process of a name, as the head knows it; 0: the head does not know the name.
  std::uint64_t known(const std::string& name) {
    for (const ActorStatus& actor : link->head().call<&Head::actors>().get())
      if (actor.label == name) return actor.address.process.id.value();
    return 0;
  }

  test::ScratchFolder scratch;
  std::atomic<bool> holds_next_event = false;  // The head's thread then waits for `go_on`.
  std::promise<void> held, go_on;
  Address at{"127.0.0.1", 0};
  std::unique_ptr<System> head;
  System owner{test::system_options("owner")};
  std::optional<HeadLink> link;
  std::optional<PublishedActors> names;
};

TEST_F(PublishedActorsTest, ABurstOfNamesArrives) {
  constexpr int kThreads = 8;
  constexpr int kNames = 250;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([this, thread] {
      for (int name = 0; name < kNames; ++name) publish(fmt::format("a{}-{}", thread, name), 1);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(link->head().call<&Head::actors>().get().size(), std::size_t{kThreads * kNames});
}

TEST_F(PublishedActorsTest, NamesReachAHeadThatHasRefusedCalls) {
  holds_next_event = true;
  System other{test::system_options("other")};
  const auto head_of_other = other.named<Head>(other.connect(at), "head");
  head_of_other.tell<&Head::register_owner>(OwnerRegistration{"s", 44});
  held.get_future().wait();
  std::vector<Future<std::vector<Member>>> waiting;
  for (int call = 0; call < 300; ++call) waiting.push_back(link->head().call<&Head::members>());
  EXPECT_EQ(test::error_of([&] { (void)waiting.back().get(); }).code(),
            ErrorCode::kResourceExhausted)
      << "the queue of the head is full";
  std::thread publishing([&] { publish("hits", 1); });
  // The first try is refused, too.
  while (!names->find("hits")) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  go_on.set_value();
  publishing.join();
  names->wait_until_confirmed();
  EXPECT_EQ(known("hits"), 1u);
}

TEST_F(PublishedActorsTest, ANewHeadLearnsWhatHasChangedInItsAbsence) {
  publish("withdrawn", 1);
  publish("stays", 1);
  publish("again", 1);
  publish("restarted", 1);
  EXPECT_EQ(known("withdrawn"), 1u);
  end_head();
  names->withdraw({"withdrawn", 1});
  names->withdraw({"again", 1});
  publish("again", 2);
  names->republish(actors("restarted", 2));
  publish("new", 2);
  start_head();
  await_head();
  EXPECT_EQ(known("withdrawn"), 0u);
  EXPECT_EQ(known("stays"), 1u);
  EXPECT_EQ(known("again"), 2u);
  EXPECT_EQ(known("restarted"), 2u);
  EXPECT_EQ(known("new"), 2u);
}

TEST_F(PublishedActorsTest, AHeadThatHasLostTheNamesLearnsAll) {
  publish("hits", 1);
  publish("misses", 1);
  end_head();
  {
    StateStore store(scratch.path());
    for (const auto& [name, row] : store.rows(StateStore::Table::kActors))
      store.erase(StateStore::Table::kActors, name);
    store.sync_to_disk();
  }
  start_head();
  await_head();
  EXPECT_EQ(known("hits"), 1u);
  EXPECT_EQ(known("misses"), 1u);
  EXPECT_EQ(link->head().call<&Head::actors>().get().size(), 2u);
}

TEST_F(PublishedActorsTest, OnlyTheKeyOfANameWithdrawsIt) {
  publish("hits", 2);
  names->withdraw({"hits", 1});
  names->wait_until_confirmed();
  EXPECT_EQ(known("hits"), 2u);
  names->withdraw({"hits", 2});
  names->wait_until_confirmed();
  EXPECT_EQ(known("hits"), 0u);
  names->republish(actors("hits", 3));
  names->wait_until_confirmed();
  EXPECT_EQ(known("hits"), 0u) << "a restart does not bring a withdrawn name back";
}

TEST_F(PublishedActorsTest, TheHeadLearnsWhichActorsHaveEnded) {
  publish("hits", 7);
  ActorAddress other = *actors("hits", 8).addresses.front();
  names->note_end(other);
  names->note_end(*actors("hits", 7).addresses.front());
  names->wait_until_confirmed();
  const auto known = link->head().call<&Head::find_actors>(FindActors{"hits", 0}).get();
  EXPECT_EQ(known.ended, std::set<std::uint32_t>{0});
}

TEST_F(PublishedActorsTest, EndsWhileTheHeadIsAway) {
  end_head();
  publish("hits", 1);
  names.reset();  // does not wait for a head
}

}  // namespace
}  // namespace weft::actors
