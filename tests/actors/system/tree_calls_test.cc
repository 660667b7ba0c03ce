// Calls of meshes from 32 ranks on, which travel a tree of the mesh's processes.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/system/internal/call_tree.h"
#include "actors/system/system.h"
#include "core/base/philox.h"
#include "tests/support/eventually.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::throws_error;

/// Member of a large mesh. Its static members count for all.
class Member final {
 public:
  explicit Member(Context& context) : context_(context), gate_(context.make_wakeup()) {}

  std::int64_t rank() const { return context_.place().rank; }
  std::string caller() const { return context_.caller().name; }
  double third() const { return 1.0 / static_cast<double>(3 + rank()); }
  std::vector<double> of_size(std::int64_t odd) const {
    return std::vector<double>(rank() == odd ? 3 : 2, 1.0);
  }
  std::string name() const { return std::to_string(rank()); }
  std::vector<double> halves(std::int64_t count) const { return std::vector<double>(count, 0.5); }
  static std::string bracket(const std::string& a, const std::string& b) {
    return "(" + a + " " + b + ")";
  }
  /// Appends a number, and returns how many there are. `padding` makes the call larger.
  std::int64_t note(std::int64_t number, const std::vector<std::byte>& padding) {
    numbers_.push_back(number);
    padding_bytes_ += static_cast<std::int64_t>(padding.size());
    return std::ssize(numbers_);
  }
  void note_quietly(std::int64_t number) { numbers_.push_back(number); }
  std::vector<std::int64_t> numbers() const { return numbers_; }
  std::int64_t padding_bytes() const { return padding_bytes_; }
  /// Waits for open() on the ranks from `first` on. Returns the number of calls of this method.
  task<int> wait_from(std::int64_t first) {
    const int run = ++runs_;
    if (rank() >= first && !open_) {
      ++waiting;
      try {
        while (!open_) co_await gate_.wait();
      } catch (const Error&) {
        ++cancelled;
        throw;
      }
    }
    co_return run;
  }
  /// Waits for open() on the rank `at`. Returns the number of calls of this method.
  task<int> wait_at(std::int64_t at) {
    const int run = ++runs_;
    ++(rank() == at ? waiting : ran);
    while (rank() == at && !open_) co_await gate_.wait();
    co_return run;
  }
  void open() {
    open_ = true;
    gate_.notify();
  }
  void fail_from(std::int64_t first) const {
    if (rank() >= first) throw Error(ErrorCode::kNotFound, "no shelf " + std::to_string(rank()));
  }

  static inline std::atomic<int> waiting{0};
  static inline std::atomic<int> cancelled{0};
  static inline std::atomic<int> ran{0};
  static constexpr auto endpoints = interface<"test.member", 1>(
      on<&Member::rank>("rank"), on<&Member::caller>("caller"), on<&Member::third>("third"),
      on<&Member::of_size>("of_size"), on<&Member::name>("name", reduce_with<&Member::bracket>),
      on<&Member::halves>("halves"), on<&Member::note>("note"),
      on<&Member::note_quietly>("note_quietly"), on<&Member::numbers>("numbers"),
      on<&Member::padding_bytes>("padding_bytes"), on<&Member::wait_from>("wait_from"),
      on<&Member::wait_at>("wait_at"), on<&Member::open>("open", urgent),
      on<&Member::fail_from>("fail_from"));

 private:
  Context& context_;
  Wakeup gate_;
  std::vector<std::int64_t> numbers_;
  std::int64_t padding_bytes_ = 0;
  int runs_ = 0;
  bool open_ = false;
};

/// Options of a process that never takes another one for dead: hundreds of processes in one are
/// silent for long on a loaded machine.
SystemOptions patient_options(const std::string& name) {
  SystemOptions options = test::system_options(name);
  options.dead_after = test::kPatience;
  return options;
}

/// Mesh of `ranks` members in neighbouring processes, which its driver has spawned.
struct Forest {
  Forest(std::int64_t ranks, std::size_t num_processes,
         const std::function<void(std::size_t, SystemOptions&)>& adjust = nullptr)
      : driver(patient_options("driver")) {
    Member::waiting = 0;
    Member::cancelled = 0;
    Member::ran = 0;
    std::vector<ProcessRef> refs;
    for (std::size_t i = 0; i < num_processes; ++i) {
      SystemOptions options = patient_options("process" + std::to_string(i));
      if (adjust) adjust(i, options);
      processes.push_back(std::make_unique<System>(std::move(options)));
      processes.back()->provide<Member>();
      refs.push_back(driver.connect(processes.back()->listen({"127.0.0.1", 0})));
    }
    std::vector<ProcessRef> of_ranks;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      of_ranks.push_back(refs[static_cast<std::size_t>(rank) * num_processes / ranks]);
    mesh = std::make_unique<ActorMesh<Member>>(
        driver.spawn_mesh<Member>("mesh", MeshShape{{"member", ranks}}, of_ranks));
  }
  /// Returns the mesh as another process sees it, which has no connections yet. `adjust` may change
  /// the addresses.
  MeshRef<Member> seen_by(System& system,
                          const std::function<void(ActorAddress&)>& adjust = nullptr) const {
    MeshRef<Member>::Addresses addresses;
    for (ActorAddress& address : mesh->ref().addresses()) {
      if (adjust) adjust(address);
      addresses.push_back(std::make_shared<const ActorAddress>(std::move(address)));
    }
    return {system, "mesh", mesh->ref().shape(), std::move(addresses)};
  }

  System driver;
  std::vector<std::unique_ptr<System>> processes;
  std::unique_ptr<ActorMesh<Member>> mesh;  // destroyed first
};

/// Socket that takes connections and never answers.
class SilentListener final {
 public:
  SilentListener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_, general, size), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    EXPECT_EQ(::getsockname(socket_, general, &size), 0);
    address_ = {"127.0.0.1", ntohs(address.sin_port)};
  }
  ~SilentListener() { ::close(socket_); }
  SilentListener(const SilentListener&) = delete;
  SilentListener& operator=(const SilentListener&) = delete;
  const Address& address() const { return address_; }

 private:
  int socket_;
  Address address_;
};

std::vector<std::int64_t> first_numbers(std::int64_t count) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

/// Returns the result of a reduction of ranks [0, n): ((0 1) (2 3)) 4.
std::string brackets(std::int64_t ranks) {
  std::vector<std::string> level;
  for (std::int64_t rank = 0; rank < ranks; ++rank) level.push_back(std::to_string(rank));
  while (level.size() > 1) {
    std::vector<std::string> next;
    for (std::size_t i = 0; i < level.size(); i += 2)
      next.push_back(i + 1 < level.size() ? Member::bracket(level[i], level[i + 1]) : level[i]);
    level = std::move(next);
  }
  return level.front();
}

double bracketed_sum(std::int64_t ranks) {
  std::vector<double> level;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    level.push_back(1.0 / static_cast<double>(3 + rank));
  while (level.size() > 1) {
    std::vector<double> next;
    for (std::size_t i = 0; i < level.size(); i += 2)
      next.push_back(i + 1 < level.size() ? level[i] + level[i + 1] : level[i]);
    level = std::move(next);
  }
  return level.front();
}

TEST(CallTree, BlocksCoverAllProcessesAndAreAtMostSixteen) {
  for (const std::size_t begin : {0u, 1u, 5u, 64u, 65u, 999u})
    for (std::size_t count = 0; count < 600; count += 1 + count / 7) {
      const auto blocks = tree_blocks(begin, begin + count);
      EXPECT_LE(blocks.size(), kTreeFanOut);
      std::size_t at = begin;
      for (const TreeBlock& block : blocks) {
        EXPECT_EQ(block.begin, at);
        EXPECT_LT(block.begin, block.end);
        at = block.end;
      }
      EXPECT_EQ(at, begin + count);
    }
}

TEST(CallTree, BlocksAreAlignedSoThatRelaysHaveNeighbours) {
  const auto blocks = tree_blocks(0, 100);
  ASSERT_EQ(blocks.size(), 13u);
  EXPECT_EQ(blocks[1], (TreeBlock{8, 16}));
  EXPECT_EQ(blocks[12], (TreeBlock{96, 100}));
  const auto below = tree_blocks(65, 128);
  ASSERT_EQ(below.size(), 16u);
  EXPECT_EQ(below[0], (TreeBlock{65, 68}));
  EXPECT_EQ(below[15], (TreeBlock{124, 128}));
}

TEST(TreeCalls, GiveResultsByRankWithAnyNumberOfRanks) {
  for (const auto& [ranks, processes] :
       std::vector<std::pair<std::int64_t, std::size_t>>{{1, 1}, {31, 7}, {32, 32}, {300, 41}}) {
    SCOPED_TRACE(ranks);
    Forest forest(ranks, processes);
    EXPECT_EQ(forest.mesh->call<&Member::rank>().get(), first_numbers(ranks));
    EXPECT_EQ(forest.mesh->reduce<&Member::rank>(sum).get(), ranks * (ranks - 1) / 2);
    std::map<std::size_t, std::int64_t> streamed;
    for (auto&& [rank, result] : forest.mesh->stream<&Member::rank>())
      streamed.emplace(rank, result.value());
    EXPECT_EQ(std::ssize(streamed), ranks);
    for (const auto& [rank, value] : streamed) EXPECT_EQ(std::cmp_equal(rank, value), true);
    const auto collected = forest.mesh->call_collect<&Member::fail_from>(ranks / 2).get();
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(collected[rank].ok(), rank < ranks / 2);
      if (rank >= ranks / 2) {
        EXPECT_EQ(collected[rank].error().message(), "no shelf " + std::to_string(rank));
        EXPECT_EQ(collected[rank].error().actor(), "mesh[member=" + std::to_string(rank) + "]");
      }
    }
    forest.mesh->tell<&Member::note_quietly>(7);
    EXPECT_EQ(forest.mesh->call<&Member::numbers>().get(),
              std::vector<std::vector<std::int64_t>>(ranks, {7}));
  }
}

TEST(TreeCalls, ConnectTheCallerToItsBranchesOnly) {
  Forest forest(80, 40);
  System caller(test::system_options("caller"));
  const auto mesh = forest.seen_by(caller);
  EXPECT_EQ(mesh.call<&Member::rank>().get(), first_numbers(80));
  EXPECT_EQ(caller.peers().size(), tree_blocks(0, 40).size());
  EXPECT_EQ(mesh.call<&Member::caller>().get(), std::vector<std::string>(80, "caller"));
  // A direct call connects, and comes behind those of the tree.
  mesh.tell<&Member::note_quietly>(1);
  EXPECT_EQ(mesh.rank(79).call<&Member::note>(2, std::vector<std::byte>()).get(), 2);
  EXPECT_EQ(mesh.rank(79).call<&Member::numbers>().get(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(caller.peers().size(), tree_blocks(0, 40).size() + 1);
}

TEST(TreeCalls, BringLargeArgumentsInChunks) {
  Forest forest(40, 40);
  for (const std::size_t bytes :
       {std::size_t{64} << 10, (std::size_t{1} << 20) - 8, (std::size_t{3} << 20) + 5}) {
    const auto before = forest.mesh->call<&Member::padding_bytes>().get();
    (void)forest.mesh->call<&Member::note>(1, std::vector<std::byte>(bytes)).get();
    const auto after = forest.mesh->call<&Member::padding_bytes>().get();
    for (std::size_t rank = 0; rank < after.size(); ++rank)
      EXPECT_EQ(after[rank] - before[rank], static_cast<std::int64_t>(bytes));
  }
}

TEST(TreeCalls, BringLargeResultsInSeveralMessages) {
  Forest forest(2, 2);
  // No process has neighbours, so none combines: 16 results of 5 MiB do not fit in one message.
  std::vector<ProcessRef> of_ranks;
  for (std::size_t rank = 0; rank < 32; ++rank)
    of_ranks.push_back(forest.processes[rank % 2]->self());
  const auto mesh = forest.driver.spawn_mesh<Member>("mixed", MeshShape{{"member", 32}}, of_ranks);
  const std::int64_t count = (std::int64_t{5} << 20) / 8;
  EXPECT_EQ(mesh.reduce<&Member::halves>(sum, count).get(), std::vector<double>(count, 16.0));
  std::size_t results = 0;
  for (auto&& [rank, result] : mesh.stream<&Member::halves>(count)) {
    ++results;
    ASSERT_EQ(std::ssize(result.value()), count) << rank;
  }
  EXPECT_EQ(results, 32u);
}

TEST(TreeCalls, TravelThreeLevels) {
  constexpr std::int64_t kProcesses = 280;
  ASSERT_EQ(tree_blocks(0, kProcesses)[1], (TreeBlock{32, 64}));
  ASSERT_EQ(tree_blocks(33, 64)[1], (TreeBlock{34, 36}));  // 34 relays calls of 35
  Forest forest(kProcesses, kProcesses);
  System caller(patient_options("caller"));
  const auto mesh = forest.seen_by(caller);
  EXPECT_EQ(mesh.call<&Member::rank>().get(), first_numbers(kProcesses));
  const auto padding = std::vector<std::byte>((std::size_t{2} << 20) + 5);
  EXPECT_EQ(mesh.call<&Member::note>(1, padding).get(), std::vector<std::int64_t>(kProcesses, 1));
  EXPECT_EQ(mesh.call<&Member::padding_bytes>().get(),
            std::vector<std::int64_t>(kProcesses, std::ssize(padding)));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(mesh.reduce<&Member::third>(sum).get()),
            std::bit_cast<std::uint64_t>(bracketed_sum(kProcesses)));
  // A relay of the second level is lost.
  auto results = mesh.call_collect<&Member::wait_from>(35);
  ASSERT_TRUE(eventually([] { return Member::waiting == kProcesses - 35; }));
  forest.processes[34].reset();
  mesh.slice({{"member", 35, kProcesses}}).call<&Member::open>().get();
  const auto collected = results.get();
  for (std::int64_t rank = 0; rank < kProcesses; ++rank)
    EXPECT_TRUE(rank == 34 || collected[rank].value() == 1) << rank;
}

TEST(TreeCalls, ReduceWithTheBitsOfTheDirectReduction) {
  for (const auto& [ranks, processes] :
       std::vector<std::pair<std::int64_t, std::size_t>>{{32, 32}, {45, 45}, {100, 34}, {77, 3}}) {
    SCOPED_TRACE(ranks);
    Forest forest(ranks, processes);
    for (int round = 0; round < 5; ++round)
      EXPECT_EQ(std::bit_cast<std::uint64_t>(forest.mesh->reduce<&Member::third>(sum).get()),
                std::bit_cast<std::uint64_t>(bracketed_sum(ranks)));
    EXPECT_EQ(forest.mesh->reduce<&Member::name>(reduce_with<&Member::bracket>).get(),
              brackets(ranks));
    const std::int64_t last = ranks - 1;
    EXPECT_THAT(
        [&] { (void)forest.mesh->reduce<&Member::of_size>(sum, last).get(); },
        throws_error(ErrorCode::kInvalidArgument, "'of_size'", "mesh[member=", "2 and 3 elements"));
  }
}

TEST(TreeCalls, AndDirectCallsArriveInTheOrderInWhichTheyWereMade) {
  constexpr std::int64_t kRanks = 48;
  constexpr std::uint64_t kSeed = 35;
  SCOPED_TRACE(kSeed);
  PhiloxStream random(kSeed);
  Forest forest(kRanks, 24);
  System caller(test::system_options("caller"));
  for (const auto& mesh : {forest.mesh->ref(), forest.seen_by(caller)}) {
    const auto before = mesh.call<&Member::numbers>().get();
    std::vector<std::vector<std::int64_t>> expected = before;
    std::vector<Future<std::vector<std::int64_t>>> trees;
    std::vector<Future<std::int64_t>> direct;
    for (std::int64_t number = 0; number < 400; ++number) {
      const std::vector<std::byte> padding(random.below(10) == 0 ? random.below(200'000)
                                                                 : random.below(200));
      const auto choice = random.below(6);
      if (choice == 0) {
        mesh.tell<&Member::note_quietly>(number);
        for (auto& numbers : expected) numbers.push_back(number);
      } else if (choice <= 2) {
        const auto begin = static_cast<std::int64_t>(random.below(kRanks - 32 + 1));
        const auto part = mesh.slice({{"member", begin, begin + 32}});
        trees.push_back(part.call<&Member::note>(number, padding));
        for (std::int64_t rank = begin; rank < begin + 32; ++rank) expected[rank].push_back(number);
      } else {
        const auto rank = static_cast<std::int64_t>(random.below(kRanks));
        direct.push_back(mesh.rank(rank).call<&Member::note>(number, padding));
        expected[rank].push_back(number);
      }
    }
    for (auto& each : trees) (void)each.get();
    for (auto& each : direct) (void)each.get();
    EXPECT_EQ(mesh.call<&Member::numbers>().get(), expected);
  }
}

TEST(TreeCalls, WithoutRoomGoDirectlyAndInOrder) {
  Forest forest(32, 8);
  System caller(test::system_options("caller"));
  const auto mesh = forest.seen_by(caller);
  auto first = mesh.call<&Member::wait_from>(0);
  ASSERT_TRUE(eventually([] { return Member::waiting == 32; }));
  std::vector<Future<std::vector<std::int64_t>>> later;
  for (std::int64_t i = 1; i <= 60; ++i)
    later.push_back(mesh.call<&Member::note>(i, std::vector<std::byte>(10)));
  mesh.call<&Member::open>().get();
  EXPECT_EQ(first.get(), std::vector<int>(32, 1));
  for (std::int64_t i = 1; i <= 60; ++i)
    EXPECT_EQ(later[i - 1].get(), std::vector<std::int64_t>(32, i));
}

TEST(TreeCalls, OfALostRelayGoDirectlyAndRunOnce) {
  Forest forest(32, 32);
  // Process 2 relays the calls of process 3.
  ASSERT_EQ(tree_blocks(0, 32)[1], (TreeBlock{2, 4}));
  System caller(test::system_options("caller"));
  const auto mesh = forest.seen_by(caller);
  auto results = mesh.call_collect<&Member::wait_from>(3);
  ASSERT_TRUE(eventually([] { return Member::waiting == 29; }));
  forest.processes[2].reset();
  // The answers of the other ranks that it relays come directly.
  mesh.slice({{"member", 3, 32}}).call<&Member::open>().get();
  const auto collected = results.get();
  for (std::int64_t rank = 0; rank < 32; ++rank) {
    SCOPED_TRACE(rank);
    if (rank == 2) continue;  // its answer may have been with it
    ASSERT_TRUE(collected[rank].ok()) << collected[rank].error().message();
    EXPECT_EQ(collected[rank].value(), 1);
  }
  const auto again = mesh.call_collect<&Member::wait_from>(32).get();
  for (std::int64_t rank = 0; rank < 32; ++rank) {
    if (rank == 2) EXPECT_FALSE(again[rank].ok());
    else EXPECT_EQ(again[rank].value(), 2);
  }
}

TEST(TreeCalls, WhoseResultsWereCombinedByALostRelayRunOnce) {
  Forest forest(32, 32);
  System caller(test::system_options("caller"));
  const auto mesh = forest.seen_by(caller);
  // Rank 3 has answered to its relay, process 2, which waits for its own actor.
  auto most = mesh.reduce<&Member::wait_at>(max, 2);
  ASSERT_TRUE(eventually([] { return Member::waiting == 1 && Member::ran == 31; }));
  forest.processes[2].reset();
  const Error error = test::error_of([&] { (void)most.get(); });
  EXPECT_TRUE(error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kPeerDied ||
              error.code() == ErrorCode::kUnavailable)
      << error.message();
  EXPECT_EQ(mesh.rank(3).call<&Member::wait_at>(99).get(), 2);
  EXPECT_EQ(mesh.rank(31).call<&Member::wait_at>(99).get(), 2);
}

TEST(TreeCalls, ThatEndBeforeTheyLeaveWereNotSentAndNeverStart) {
  Forest forest(32, 32);
  const auto id_of = [&](std::size_t process) { return forest.processes[process]->self().id; };
  std::size_t first = 0;
  for (const TreeBlock& block : tree_blocks(0, 32))
    if (id_of(block.begin) < id_of(first)) first = block.begin;
  const ProcessId relay = id_of(first);
  const SilentListener silent;
  // While two processes dial each other, the one with the smaller id wins.
  std::optional<System> caller;
  do caller.emplace(test::system_options("caller"));
  while (caller->self().id < relay);
  const Address here = caller->listen({"127.0.0.1", 0});
  const auto mesh = forest.seen_by(*caller, [&](ActorAddress& address) {
    if (address.process.id == relay) address.process.address = silent.address();
  });
  const auto results = mesh.within(300ms).call_collect<&Member::wait_from>(32).get();
  for (const std::size_t rank : {first, first + 1}) {
    ASSERT_FALSE(results[rank].ok());
    EXPECT_EQ(results[rank].error().code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(results[rank].error().message(), testing::HasSubstr("it had not been sent"));
  }
  // The connection that the relay opens takes what waits for it.
  forest.processes[first]->connect(here);
  for (const std::size_t rank : {first, first + 1})
    EXPECT_EQ(mesh.rank(rank).call<&Member::wait_from>(32).get(), 1) << "the number of calls";
}

TEST(TreeCalls, AreCancelledInAllProcesses) {
  Forest forest(64, 32);
  System caller(test::system_options("caller"));
  const auto mesh = forest.seen_by(caller);
  auto waiting = mesh.call<&Member::wait_from>(0);
  ASSERT_TRUE(eventually([] { return Member::waiting == 64; }));
  waiting.cancel();
  EXPECT_THAT([&] { (void)waiting.get(); }, throws_error(ErrorCode::kCancelled, "'wait_from'"));
  EXPECT_TRUE(eventually([] { return Member::cancelled == 64; }));
  // The mailboxes are free again.
  EXPECT_EQ(mesh.call<&Member::rank>().get(), first_numbers(64));
}

TEST(TreeCalls, ThatFailWithAProcessStopThereAndRunOnElsewhere) {
  Forest forest(32, 32);
  System caller(test::system_options("caller"));
  const auto mesh = forest.seen_by(caller);
  auto results = mesh.call_collect<&Member::wait_from>(2);
  ASSERT_TRUE(eventually([] { return Member::waiting == 30; }));
  // Process 2 relays the calls of process 3.
  caller.fail_calls(forest.processes[2]->self().id, Error(ErrorCode::kPeerDied, "it hangs"));
  ASSERT_TRUE(eventually([] { return Member::cancelled == 1; }));
  EXPECT_EQ(caller.peers().size(), tree_blocks(0, 32).size()) << "no call went directly";
  mesh.slice({{"member", 0, 32}}).call<&Member::open>().get();
  const auto collected = results.get();
  for (std::int64_t rank = 0; rank < 32; ++rank) {
    if (rank != 2) {
      EXPECT_EQ(collected[rank].value(), 1) << rank;
    } else {
      EXPECT_EQ(collected[rank].error().code(), ErrorCode::kPeerDied);
    }
  }
}

TEST(TreeCalls, EndAtTheirDeadlineInAllProcesses) {
  Forest forest(40, 20);
  auto waiting = forest.mesh->within(200ms).call_collect<&Member::wait_from>(1);
  const auto results = waiting.get();
  EXPECT_EQ(results[0].value(), 1);
  for (std::size_t rank = 1; rank < 40; ++rank) {
    ASSERT_FALSE(results[rank].ok());
    EXPECT_EQ(results[rank].error().code(), ErrorCode::kDeadlineExceeded);
  }
  EXPECT_TRUE(eventually([] { return Member::cancelled == 39; }));
  // Calls without time left do not leave.
  for (const auto& late :
       forest.mesh->within(Nanoseconds::zero()).call_collect<&Member::wait_from>(1).get())
    EXPECT_EQ(late.ok() ? CallProgress::kNoCall : late.error().progress(), CallProgress::kNotSent);
}

TEST(TreeCalls, GoOnAfterAProcessCouldNotReachTheCaller) {
  Forest forest(32, 32);
  System caller(test::system_options("caller"));
  const auto mesh = forest.seen_by(caller);
  EXPECT_EQ(mesh.call<&Member::rank>().get(), first_numbers(32));
  // Process 3 calls an actor of the caller, at a port where nothing listens.
  const ActorRef<Member> unreachable(
      *forest.processes[3], std::make_shared<const ActorAddress>(ActorAddress{
                                {caller.self().id, "caller", {"127.0.0.1", 1}}, ActorId(5), "x"}));
  EXPECT_THAT([&] { (void)unreachable.call<&Member::rank>().get(); },
              throws_error(ErrorCode::kUnavailable, "caller"));
  EXPECT_EQ(mesh.call<&Member::rank>().get(), first_numbers(32));
  EXPECT_EQ(caller.peers().size(), tree_blocks(0, 32).size()) << "no call went directly";
}

TEST(TreeCalls, ArriveFromCallersThatTakeTurns) {
  Forest forest(32, 32);
  System caller(test::system_options("caller"));
  System other(test::system_options("other"));
  const auto mesh = forest.seen_by(caller);
  const auto others = forest.seen_by(other);
  for (std::int64_t number = 1; number <= 9; number += 3) {
    EXPECT_EQ(mesh.call<&Member::note>(number, std::vector<std::byte>()).get(),
              std::vector<std::int64_t>(32, number));
    EXPECT_EQ(others.call<&Member::note>(number + 1, std::vector<std::byte>()).get(),
              std::vector<std::int64_t>(32, number + 1));
    mesh.tell<&Member::note_quietly>(number + 2);
    // Direct calls come behind it.
    EXPECT_EQ(mesh.rank(31).call<&Member::numbers>().get().size(),
              static_cast<std::size_t>(number + 2));
    EXPECT_EQ(mesh.call<&Member::numbers>().get()[7].size(), static_cast<std::size_t>(number + 2));
  }
}

TEST(TreeCalls, StopWithTheCallerThatEnds) {
  Forest forest(40, 40);
  {
    System caller(test::system_options("caller"));
    auto waiting = forest.seen_by(caller).call<&Member::wait_from>(0);
    ASSERT_TRUE(eventually([] { return Member::waiting == 40; }));
  }
  EXPECT_TRUE(eventually([] { return Member::cancelled == 40; }));
}

TEST(TreeCalls, GoDirectlyToProcessesThatDoNotRelay) {
  Forest forest(40, 40, [](std::size_t i, SystemOptions& options) {
    options.relays_calls = i % 3 != 0;
    if (i % 7 == 1) options.run = 5;
  });
  System caller(test::system_options("caller"));
  const auto mesh = forest.seen_by(caller);
  for (int round = 0; round < 3; ++round)
    EXPECT_EQ(mesh.call<&Member::rank>().get(), first_numbers(40));
  EXPECT_EQ(mesh.reduce<&Member::rank>(sum).get(), 39 * 20);
}

}  // namespace
}  // namespace weft::actors
