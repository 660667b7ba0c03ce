// Tests an exchange of records between actors of two meshes, over real sockets and UCX.
#include "mesh/exchange/exchange.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "actors/system/system.h"
#include "core/log/log.h"
#include "mesh/exchange/data_plane_connector.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

struct Deal {
  std::uint64_t number = 0;
  std::uint32_t records = 0;  ///< Number of records of each rank. Record i goes to rank i % ranks.
  bool stalls = false;        ///< True if the call never ends.
  static constexpr auto fields = weft::fields(&Deal::number, &Deal::records, &Deal::stalls);
};

class Dealer final {
 public:
  using Arguments = std::tuple<>;
  explicit Dealer(actors::Context& context) : context_(context), port_(context) {}

  std::vector<std::byte> open(const transfer::DataPlaneSetup& setup) { return port_.open(setup); }
  void connect(const std::vector<transfer::PeerAddress>& peers) { port_.connect(peers); }
  void cancel(const std::string& why) { port_.cancel(Error(ErrorCode::kPeerDied, why)); }

  /// Sends records and returns the sum of the numbers received.
  actors::task<std::uint64_t> deal(Deal what) {
    std::uint64_t sum = 0;
    ActorExchange exchange(port_, options(what), [&](const transfer::ReceivedBlock& block) {
      sum += sum_of(block.bytes());
    });
    for (std::uint32_t i = 0; i < what.records; ++i) {
      const auto record = std::as_bytes(std::span(&i, 1));
      const std::uint32_t rank = i % port_.num_ranks();
      while (!exchange.append(rank, record)) co_await exchange.flush(rank);
    }
    if (what.stalls) co_await context_.make_wakeup().wait();
    co_await exchange.finish();
    co_return sum;
  }
  /// Does the same, but awaits each block. Records of one rank arrive in order.
  actors::task<std::uint64_t> pull(Deal what) {
    ActorExchange exchange(port_, options(what));
    std::vector<std::uint32_t> numbers(what.records);
    std::iota(numbers.begin(), numbers.end(), 0);
    for (std::uint32_t rank = 0; rank < port_.num_ranks(); ++rank) {
      // Each share is small enough to be buffered at its receiver, so put() completes before the
      // receiver reads.
      const std::size_t share = numbers.size() / port_.num_ranks();
      co_await exchange.send_block(rank,
                                   std::as_bytes(std::span(numbers).subspan(rank * share, share)));
    }
    co_await exchange.end();
    std::uint64_t sum = 0;
    while (const auto block = co_await exchange.next()) sum += sum_of(block->bytes());
    co_return sum;
  }

  static constexpr auto endpoints = actors::interface<"test.dealer", 1>(
      actors::on<&Dealer::open>("open"), actors::on<&Dealer::connect>("connect"),
      actors::on<&Dealer::cancel>("cancel", actors::urgent), actors::on<&Dealer::deal>("deal"),
      actors::on<&Dealer::pull>("pull"));

 private:
  static ActorExchange::Options options(const Deal& what) {
    return {.number = what.number, .budget = 256 << 10};
  }
  static std::uint64_t sum_of(std::span<const std::byte> bytes) {
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
      std::uint32_t number = 0;
      std::memcpy(&number, bytes.data() + at, sizeof(number));
      sum += number;
    }
    return sum;
  }

  actors::Context& context_;
  DataPlaneEndpoint port_;
};

actors::SystemOptions options(const std::string& name) {
  actors::SystemOptions options = test::system_options(name);
  options.log = Log::standard_error(LogLevel::kWarning);
  return options;
}

/// Two meshes of two ranks and one rank. Each rank has its own actor system in this process.
class MeshExchange : public testing::Test {
 protected:
  MeshExchange() : driver(options("driver")) {
    for (const auto& [name, ranks] :
         std::vector<std::pair<std::string, std::int64_t>>{{"front", 2}, {"back", 1}}) {
      std::vector<actors::ProcessRef> processes;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        systems.push_back(std::make_unique<actors::System>(options(name)));
        systems.back()->provide<Dealer>();
        processes.push_back(driver.connect(systems.back()->listen({"127.0.0.1", 0})));
      }
      meshes.push_back(driver.spawn_mesh<Dealer>(name, MeshShape({{"rank", ranks}}), processes));
    }
  }

  void connect(std::uint64_t epoch) {
    DataPlaneConnector ranks(epoch, {{{"front", "lo"}, {"back", "lo"}}, "lo"});
    for (const auto& mesh : meshes) {
      std::vector<actors::HostDevice> places(mesh.size());
      for (actors::HostDevice& place : places) place.host = mesh.name();
      ranks.add<&Dealer::open, &Dealer::connect>(mesh.ref(), places);
    }
    ranks.connect();
  }
  template <auto Method>
  std::vector<actors::Future<std::vector<std::uint64_t>>> start(const Deal& what) {
    std::vector<actors::Future<std::vector<std::uint64_t>>> started;
    for (const auto& mesh : meshes) started.push_back(mesh.call<Method>(what));
    return started;
  }
  /// Calls `Method` on all ranks and returns their results in rank order.
  template <auto Method>
  std::vector<std::uint64_t> run(const Deal& what) {
    std::vector<std::uint64_t> sums;
    for (auto& future : start<Method>(what))
      for (const std::uint64_t sum : future.get()) sums.push_back(sum);
    return sums;
  }

  actors::System driver;
  std::vector<std::unique_ptr<actors::System>> systems;
  std::vector<actors::ActorMesh<Dealer>> meshes;
};

TEST_F(MeshExchange, EveryRankGetsItsRecordsHoweverManyOneExchangeAfterTheOther) {
  connect(1);
  for (const std::uint32_t records : {0u, 10u, 300'000u}) {
    std::vector<std::uint64_t> expected(3);
    for (std::uint32_t i = 0; i < records; ++i) expected[i % 3] += 3ull * i;
    EXPECT_EQ(run<&Dealer::deal>({.number = records, .records = records}), expected);
  }
  const std::uint64_t share = 3000;
  std::vector<std::uint64_t> expected;
  for (std::uint64_t rank = 0; rank < 3; ++rank)
    expected.push_back(3 * (rank * share * share + share * (share - 1) / 2));
  EXPECT_EQ(run<&Dealer::pull>({.number = 2, .records = 9000}), expected);
  EXPECT_EQ(test::error_of([&] { run<&Dealer::deal>({.number = 2}); }).message(),
            "exchange number 2 was already used in this epoch; give each exchange its own number");
}

TEST_F(MeshExchange, ACancelledRankEndsItForAllAndTheNextEpochWorks) {
  connect(1);
  auto stalled = start<&Dealer::deal>({.number = 1, .records = 100'000, .stalls = true});
  meshes[1].call<&Dealer::cancel>("rank 1 has died").get();
  for (auto& mesh : meshes) mesh.call<&Dealer::cancel>("rank 1 has died").get();
  for (auto& future : stalled) {
    future.cancel();
    test::error_of([&] { future.get(); });
  }
  connect(2);
  EXPECT_EQ(run<&Dealer::deal>({.number = 1, .records = 3}), (std::vector<std::uint64_t>{0, 3, 6}));
}

TEST_F(MeshExchange, AHandlerThatWaitsForAnotherRankEndsWithTheReason) {
  connect(1);
  // The rank of the second mesh never takes part.
  auto waiting = meshes[0].call<&Dealer::deal>(Deal{.number = 1, .records = 100'000});
  for (auto& mesh : meshes) mesh.call<&Dealer::cancel>("back[0] has died").get();
  EXPECT_EQ(test::error_of([&] { waiting.get(); }).message(), "back[0] has died");
}

TEST_F(MeshExchange, RanksMustBeConnectedFirst) {
  EXPECT_EQ(test::error_of([&] { meshes[0].rank(0).call<&Dealer::deal>(Deal{}).get(); }).code(),
            ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace weft::mesh
