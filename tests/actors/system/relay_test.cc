// Processes that relay calls: damaged requests, and answers for calls that come twice.

#include "actors/system/internal/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "actors/system/internal/system_methods.h"
#include "actors/system/system.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::throws_error;

/// Request of the process "stranger" with one call, of an actor that does not exist.
RelayRequest request_to(const System& relay, const System& stranger) {
  RelayRequest request;
  request.key = 1;
  request.header.origin = stranger.self();
  request.header.num_ranks = 1;
  request.nodes.push_back({relay.self(), {{7, ActorId(99), 1, 1, 0}}});
  return request;
}

TEST(Relay, RefusesDamagedTrees) {
  System relay(test::system_options("relay"));
  System stranger(test::system_options("stranger"));
  const auto target = system_actor_of(stranger.connect(relay.listen({"127.0.0.1", 0})), "relay");
  const System::Method method{
      kRelayMethod, static_cast<std::uint32_t>(SystemMethod::kRelay), 0, true, false, 30s};
  const auto send = [&](const std::function<void(RelayRequest&)>& damage) {
    RelayRequest request = request_to(relay, stranger);
    damage(request);
    return future_of<RelayResults>(stranger.call(target, method, 30s, encode(request)));
  };
  const auto node = [&](std::uint64_t id) {
    return RelayNode{{ProcessId(id), "other", {}}, {{id, ActorId(1), 1, 1, 0}}};
  };
  const auto refuses = [&](const std::string& why,
                           const std::function<void(RelayRequest&)>& damage) {
    EXPECT_THAT([&] { (void)send(damage).get(); }, throws_error(ErrorCode::kInvalidArgument, why));
  };
  const std::string ranks = "whose ranks are not among";
  refuses(ranks, [](RelayRequest& request) { request.header.num_ranks = 0; });
  refuses(ranks, [](RelayRequest& request) { request.nodes[0].calls[0].rank = 1; });
  refuses(ranks, [](RelayRequest& request) { request.nodes[0].calls.clear(); });
  refuses(ranks, [&](RelayRequest& request) { request.nodes.push_back(node(5)); });
  refuses(ranks, [&](RelayRequest& request) {
    // Positions that overflow.
    request.header.num_ranks = 200;
    request.first = ~std::uint64_t{0} - 100;
    for (std::uint64_t id = 5; id < 105; ++id) request.nodes.push_back(node(id));
  });
  refuses("a loop", [&](RelayRequest& request) { request.header.origin = relay.self(); });
  refuses("a loop", [&](RelayRequest& request) {
    request.header.num_ranks = 2;
    request.nodes.push_back(node(stranger.self().id.value()));
  });
  refuses("not for it", [](RelayRequest& request) { request.nodes[0].process.id = ProcessId(5); });
  refuses("more arguments", [](RelayRequest& request) { request.arguments.resize(1); });
  std::uint64_t number = 0;
  for (const std::int64_t left : {std::numeric_limits<std::int64_t>::max(), std::int64_t{-1},
                                  std::numeric_limits<std::int64_t>::min()}) {
    ++number;
    const auto results = send([&](RelayRequest& request) {
                           request.header.remaining_ns = left;
                           request.nodes[0].calls[0].number = number;
                         }).get();
    ASSERT_EQ(results.results.size(), 1u);
    EXPECT_EQ(results.results[0].id, 7u);
    EXPECT_NE(results.results[0].error, std::nullopt);
  }
}

TEST(RelayedRoute, KeepsAnswersForTheirCaller) {
  struct Tree final : RelayedAnswers {
    void answer(Reply reply) override { answered.push_back(reply.id); }
    void settle(std::uint64_t id) override { settled.push_back(id); }
    std::vector<std::uint64_t> answered, settled;
  };
  struct Direct final : ReturnRoute {
    void reply(Reply reply, bool) override { replies.push_back(std::move(reply)); }
    void grant(const Credit&) override {}
    void send_values(Values) override {}
    void run_soon(std::function<void()> send) override { send(); }
    ProcessRef peer() const override { return {}; }
    std::vector<Reply> replies;
  };
  const auto tree = std::make_shared<Tree>();
  const auto direct = std::make_shared<Direct>();
  RelayedRoute route({ProcessId(7), "caller", {}});
  EXPECT_EQ(route.peer().name, "caller");
  EXPECT_TRUE(route.expect(1, tree, nullptr));
  EXPECT_FALSE(route.expect(1, tree, nullptr)) << "it is there";
  const Reply first{1, std::vector<std::byte>(3)};
  route.reply(first, false);
  EXPECT_EQ(tree->answered, std::vector<std::uint64_t>{1});
  EXPECT_EQ(route.kept(1), first);
  EXPECT_EQ(route.kept(2), std::nullopt);
  EXPECT_FALSE(route.redirect(1, direct)) << "it has ended";
  // A call that its caller sends again while it runs.
  EXPECT_TRUE(route.expect(2, tree, nullptr));
  EXPECT_TRUE(route.redirect(2, direct));
  EXPECT_EQ(tree->settled, std::vector<std::uint64_t>{2});
  route.reply({2, std::vector<std::byte>()}, false);
  EXPECT_EQ(tree->answered.size(), 1u);
  ASSERT_EQ(direct->replies.size(), 1u);
  EXPECT_EQ(direct->replies[0].id, 2u);
  // The oldest are dropped.
  for (std::uint64_t id = 10; id < 10 + RelayedRoute::kMaxKept; ++id) {
    EXPECT_TRUE(route.expect(id, tree, nullptr));
    route.reply({id, std::vector<std::byte>()}, false);
  }
  EXPECT_EQ(route.kept(1), std::nullopt);
  EXPECT_NE(route.kept(10), std::nullopt);
}

}  // namespace
}  // namespace weft::actors
