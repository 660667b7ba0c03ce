#include "actors/system/internal/peer_links.h"

#include <gtest/gtest.h>

#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

class NoEvents final : public LinkEvents {
 public:
  void on_call(Link&, Call) override {}
  void on_reply(Link&, Reply) override {}
  void on_cancel(Link&, std::uint64_t) override {}
  void on_values(Link&, Values) override {}
  void on_pull(Link&, const Pull&) override {}
  void on_credit_request(Link&, ActorId) override {}
  void on_ended(Link&, EndCause, const Error&) override {}
};

struct PeerLinksTest : testing::Test {
  NoEvents events;
  std::vector<std::string> dropped;
  PeerLinks links{events, std::chrono::seconds(1),
                  [this](Link& link, const Error& reason, DisconnectCause) {
                    dropped.push_back(link.peer().name + ": " + reason.message());
                  }};

  static ProcessRef process(std::uint64_t id, std::uint16_t port = 9000) {
    return {ProcessId(id), "process " + std::to_string(id), Address{"127.0.0.1", port}};
  }
};

TEST_F(PeerLinksTest, ANewLinkIsDialledByTheFirstCallerOnly) {
  const auto link = links.find_or_add_reachable(process(1));
  EXPECT_FALSE(link->is_dialled());
  EXPECT_TRUE(link->claim_dial());
  EXPECT_EQ(links.find_or_add_reachable(process(1)), link);
  EXPECT_FALSE(link->claim_dial());
  EXPECT_TRUE(link->is_dialled());
  EXPECT_EQ(links.find(ProcessId(1)), link);
  EXPECT_FALSE(links.is_attached(ProcessId(1)));
}

TEST_F(PeerLinksTest, AProcessThatDoesNotListenCannotBeDialledButItsLinkIsFound) {
  EXPECT_EQ(test::error_of([&] { links.find_or_add_reachable(process(1, 0)); }).message(),
            "process 1 is not connected and does not listen, so this process cannot connect to it");
  const auto link = links.find_or_add(process(1, 0));
  EXPECT_EQ(links.find_or_add_reachable(process(1, 0)), link);
}

TEST_F(PeerLinksTest, TheFirstReasonOfADeathStaysUnlessThereIsBetterEvidence) {
  links.mark_dead(ProcessId(1), Error(ErrorCode::kPeerDied, "first"), false);
  links.mark_dead(ProcessId(1), Error(ErrorCode::kPeerDied, "second"), false);
  EXPECT_EQ(test::error_of([&] { links.find_or_add_reachable(process(1)); }),
            Error(ErrorCode::kPeerDied, "first"));
  links.mark_dead(ProcessId(1), Error(ErrorCode::kPeerDied, "better"), true);
  EXPECT_EQ(links.death_of(ProcessId(1))->message(), "better");
  EXPECT_EQ(links.death_of(ProcessId(2)), std::nullopt);
}

TEST_F(PeerLinksTest, ManyLaterDeathsReplaceTheOldest) {
  for (std::uint64_t id = 1; id <= 4097; ++id)
    links.mark_dead(ProcessId(id), Error(ErrorCode::kPeerDied, "dead"), false);
  EXPECT_FALSE(links.death_of(ProcessId(1)));
  EXPECT_TRUE(links.death_of(ProcessId(2)));
}

TEST_F(PeerLinksTest, ADroppedLinkCancelsItsDialAndIsReportedOnce) {
  const auto link = links.find_or_add(process(1));
  int cancelled = 0;
  links.begin_dial(ProcessId(1), [&] { ++cancelled; });
  links.drop(link, Error(ErrorCode::kUnavailable, "cannot reach it"));
  links.drop(link, Error(ErrorCode::kUnavailable, "again"));
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(dropped, std::vector<std::string>{"process 1: cannot reach it"});
  EXPECT_EQ(links.find(ProcessId(1)), nullptr);
}

TEST_F(PeerLinksTest, NoLinkIsAddedOnceAllAreTaken) {
  const auto link = links.find_or_add(process(1));
  const Error why(ErrorCode::kCancelled, "it is shutting down");
  EXPECT_EQ(links.take_all(why).size(), 1u);
  for (const std::uint64_t id : {1, 2}) {
    EXPECT_EQ(test::error_of([&] { links.find_or_add_reachable(process(id)); }), why);
    EXPECT_EQ(test::error_of([&] { links.find_or_add(process(id)); }), why);
  }
}

TEST_F(PeerLinksTest, ALinkThatWasReplacedIsNotDropped) {
  const auto old_link = links.find_or_add(process(1));
  links.drop(old_link, Error(ErrorCode::kPeerDied, "lost"));
  const auto new_link = links.find_or_add(process(1));
  EXPECT_FALSE(links.contains(old_link));
  links.drop(old_link, Error(ErrorCode::kPeerDied, "lost again"));
  EXPECT_TRUE(links.contains(new_link));
  EXPECT_EQ(dropped.size(), 1);
}

}  // namespace
}  // namespace weft::actors
