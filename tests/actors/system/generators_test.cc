// Handlers that return generator<T>: values as they come, the window, and what ends a generator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/system/system.h"
#include "tests/support/eventually.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

/// Argument that is decoded while a test holds the gate. Its call has left the mailbox then, and
/// its handler has not begun.
struct SlowArgument {
  static inline std::atomic<bool> held{false};
  static inline std::atomic<int> decoding{0};
};

}  // namespace
}  // namespace weft::actors

template <>
struct weft::codec<weft::actors::SlowArgument> {
  static constexpr std::size_t kMinBytes = 0;
  static constexpr std::uint64_t kFingerprint = type_fingerprint<std::uint8_t>();
  static void write(ByteWriter&, const actors::SlowArgument&) {}
  static actors::SlowArgument read(ByteReader&) {
    ++actors::SlowArgument::decoding;
    EXPECT_TRUE(test::eventually([] { return !actors::SlowArgument::held; }));
    return {};
  }
};

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Line {
  std::string text;
  std::vector<int> numbers;
  static constexpr auto fields = weft::fields(&Line::text, &Line::numbers);
};

/// Actor with generators that end, fail, never end or wait. Notes the ends of their locals.
class Source final {
 public:
  explicit Source(Context& context) : context_(context), gate_(context.make_wakeup()) {}

  generator<int> count(int number) {
    const Local local(*this);
    for (int i = 0; i < number; ++i) {
      ++produced;
      co_yield i;
    }
  }
  generator<int> count_beside_others(int number) { return count(number); }
  generator<int> count_slowly(SlowArgument, int number) { return count(number); }
  generator<std::string> texts(int number, int bytes) {
    for (int i = 0; i < number; ++i) {
      ++produced;
      co_yield std::string(static_cast<std::size_t>(bytes), static_cast<char>('a' + i));
    }
  }
  generator<int> fail_after(int number) {
    for (int i = 0; i < number; ++i) co_yield i;
    throw Error(ErrorCode::kNotFound, "no such shelf");
  }
  generator<std::int64_t> ranks() {
    for (std::int64_t i = 0; i < context_.place().rank; ++i) co_yield context_.place().rank;
  }
  generator<Line> lines(int number) {
    for (int i = 0; i < number; ++i) {
      const Line line{"line " + std::to_string(i), {i, i + 1}};
      co_yield line;
    }
  }
  generator<std::pair<std::string, int>> pairs(int number) {
    for (int i = 0; i < number; ++i) co_yield {"pair " + std::to_string(i), i};
  }
  /// Yields 0, and waits for open() before each later number.
  generator<int> gated(int number) {
    const Local local(*this);
    for (int i = 0; i < number; ++i) {
      if (i > 0) co_await gate_.wait();
      ++produced;
      co_yield i;
    }
  }
  /// Yields until halt(), whatever its reader does.
  generator<int> until_halted() {
    for (int i = 0; !halted_; ++i) co_yield i;
  }
  /// Yields what the generator of another actor yields.
  generator<int> relay(ActorRef<Source> from, int number) {
    const Local local(*this);
    auto values = from.stream<&Source::count>(number);
    while (auto next = co_await values.next()) co_yield next->value();
  }
  task<int> sum(ActorRef<Source> from, int number) {
    int total = 0;
    auto values = from.stream<&Source::count>(number);
    while (auto next = co_await values.next()) total += next->value();
    co_return total;
  }
  task<> read_gated(ActorRef<Source> from) {
    auto values = from.stream<&Source::gated>(2);
    while (auto next = co_await values.next()) next->value();
  }
  int sum_in_thread(ActorRef<Source> from, int number) {
    int total = 0;
    for (auto&& value : from.stream<&Source::count>(number)) total += value.value();
    return total;
  }
  void open() { gate_.notify(); }
  void halt() { halted_ = true; }
  int answer() const { return 42; }
  int urgent_answer() const { return 43; }

  static void reset() { produced = ended = stopped = elsewhere = 0; }
  static inline std::atomic<int> produced{0};   // values that generators have made
  static inline std::atomic<int> ended{0};      // generators whose locals were destroyed
  static inline std::atomic<int> stopped{0};    // those whose stop token was set then
  static inline std::atomic<int> elsewhere{0};  // those on another thread than the actor's

  static constexpr auto endpoints = interface<"test.source", 1>(
      on<&Source::count>("count"),
      on<&Source::count_beside_others>("count_beside_others", concurrent),
      on<&Source::count_slowly>("count_slowly"), on<&Source::texts>("texts"),
      on<&Source::fail_after>("fail_after"), on<&Source::lines>("lines"),
      on<&Source::pairs>("pairs"), on<&Source::ranks>("ranks"),
      on<&Source::gated>("gated", idempotent), on<&Source::until_halted>("until_halted"),
      on<&Source::relay>("relay"), on<&Source::sum>("sum"), on<&Source::read_gated>("read_gated"),
      on<&Source::sum_in_thread>("sum_in_thread", blocking), on<&Source::open>("open", urgent),
      on<&Source::halt>("halt", urgent), on<&Source::answer>("answer"),
      on<&Source::urgent_answer>("urgent_answer", urgent));

 private:
  /// Local of a generator.
  struct Local {
    explicit Local(Source& of) : source(of) {}
    ~Local() {
      stopped += source.context_.stop_token().stop_requested();
      elsewhere += current_actor() != source.context_.self().actor;
      ++ended;
    }
    Source& source;
  };
  Context& context_;
  Wakeup gate_;
  bool halted_ = false;
};

std::unique_ptr<System> source_process(const std::string& name) {
  auto system = std::make_unique<System>(test::system_options(name));
  system->provide<Source>();
  system->listen({"127.0.0.1", 0});
  return system;
}

/// Sources of a worker and of the driver itself.
struct Generators : testing::Test {
  void SetUp() override {
    Source::reset();
    (void)far_system->host<Source>("source");
    far = driver->named<Source>(driver->connect(far_system->self().address), "source");
    near = driver->host<Source>("source");
  }
  /// Lets the driver take the worker for dead, as the parent of the process would report it.
  void kill() {
    driver->declare_dead(far_system->self().id,
                         Error(ErrorCode::kPeerDied, "worker died: SIGKILL"));
  }
  template <typename Stream>
  std::vector<int> all_of(Stream stream) {
    std::vector<int> values;
    for (auto&& value : stream) values.push_back(value.value());
    return values;
  }

  std::unique_ptr<System> far_system = source_process("worker");
  std::optional<System> driver{test::system_options("driver")};
  ActorRef<Source> far, near;
};

TEST_F(Generators, GiveTheirValuesInOrderToTheEnd) {
  for (const auto& source : {far, near}) {
    EXPECT_THAT(all_of(source.stream<&Source::count>(3)), ElementsAre(0, 1, 2));
    EXPECT_THAT(all_of(source.stream<&Source::count>(0)), ElementsAre());
    auto values = source.stream<&Source::count>(1);
    EXPECT_EQ(values.next().get()->value(), 0);
    EXPECT_FALSE(values.next().get());
    EXPECT_FALSE(values.next().get()) << "the end stays";
  }
  EXPECT_EQ(Source::stopped, 0);
}

TEST_F(Generators, RunAheadOfTheirReaderByAWindowOfValues) {
  for (const auto& source : {far, near}) {
    Source::reset();
    constexpr int kWindow = kStreamWindowValues;
    auto values = source.stream<&Source::count>(1000);
    EXPECT_TRUE(eventually([] { return Source::produced == kWindow; }));
    EXPECT_EQ(source.call<&Source::urgent_answer>().get(), 43) << "urgent calls run meanwhile";
    EXPECT_EQ(Source::produced, kWindow);
    for (int i = 0; i < 500; ++i) {
      EXPECT_EQ(values.next().get()->value(), i);
      EXPECT_LE(Source::produced, i + 1 + kWindow);
    }
    EXPECT_TRUE(eventually([] { return Source::produced >= 500 + kWindow / 2; }));
  }
}

TEST_F(Generators, RunAheadOfTheirReaderByAWindowOfBytes) {
  for (const auto& source : {far, near}) {
    Source::reset();
    auto values = source.stream<&Source::texts>(10, 300 << 10);
    EXPECT_TRUE(eventually([] { return Source::produced == 4; }));
    EXPECT_EQ(source.call<&Source::urgent_answer>().get(), 43);
    EXPECT_EQ(Source::produced, 4);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(values.next().get()->value()[1000], 'a' + i);
    EXPECT_FALSE(values.next().get());
  }
}

TEST_F(Generators, GiveStructsAndPairs) {
  for (const auto& source : {far, near}) {
    int i = 0;
    for (auto&& line : source.stream<&Source::lines>(40)) {
      EXPECT_EQ(line.value().text, "line " + std::to_string(i));
      EXPECT_THAT(line.value().numbers, ElementsAre(i, i + 1));
      ++i;
    }
    for (auto&& pair : source.stream<&Source::pairs>(40)) {
      EXPECT_EQ(pair.value(), (std::pair("pair " + std::to_string(i - 40), i - 40)));
      ++i;
    }
    EXPECT_EQ(i, 80);
  }
}

TEST_F(Generators, GiveTheirErrorLast) {
  for (const auto& source : {far, near}) {
    auto values = source.stream<&Source::fail_after>(3);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(values.next().get()->value(), i);
    const auto last = values.next().get();
    EXPECT_EQ(last->error().message(), "no such shelf");
    EXPECT_EQ(last->error().actor(), "source");
    EXPECT_FALSE(values.next().get());
  }
}

TEST_F(Generators, EndAtTheirCoYieldWhenTheReaderGoes) {
  for (const auto& source : {far, near}) {
    Source::reset();
    for (auto&& value : source.stream<&Source::count>(1'000'000)) {
      EXPECT_EQ(value.value(), 0);
      break;
    }
    EXPECT_TRUE(eventually([] { return Source::ended == 1; }));
    EXPECT_EQ(Source::stopped, 1) << "its stop token is set";
    EXPECT_EQ(Source::elsewhere, 0);
    EXPECT_LE(Source::produced, 64);
    EXPECT_EQ(source.call<&Source::answer>().get(), 42) << "the actor goes on";
  }
}

TEST_F(Generators, EndAlsoIfThousandReadersGoAtOnce) {
  for (const auto& source : {far, near}) {
    Source::reset();
    for (int i = 0; i < 1000; ++i) {
      auto values = source.stream<&Source::count_beside_others>(1'000'000);
      if (i % 2 == 0) {
        EXPECT_EQ(values.next().get()->value(), 0);
      }
    }
    EXPECT_EQ(source.call<&Source::answer>().get(), 42);
    EXPECT_GE(Source::ended, 500);
  }
}

TEST_F(Generators, EndAtTheirCoAwaitWhenTheReaderGoes) {
  auto values = std::make_optional(far.stream<&Source::gated>(2));
  EXPECT_EQ(values->next().get()->value(), 0);
  values.reset();
  EXPECT_TRUE(eventually([] { return Source::ended == 1; }));
  EXPECT_EQ(far.call<&Source::answer>().get(), 42);
}

TEST_F(Generators, EndWhenTheProcessOfTheReaderGoes) {
  auto other = source_process("other");
  auto values = std::make_unique<ResultStream<int, Outcome<int>>>(
      other->named<Source>(other->connect(far_system->self().address), "source")
          .stream<&Source::count>(1000));
  EXPECT_EQ(values->next().get()->value(), 0);
  EXPECT_TRUE(eventually([] { return Source::produced == kStreamWindowValues; }));
  other->declare_dead(far_system->self().id, Error(ErrorCode::kPeerDied, "a test"));
  EXPECT_TRUE(eventually([] { return Source::ended == 1; }));
  EXPECT_EQ(far.call<&Source::answer>().get(), 42);
  values.reset();
}

TEST_F(Generators, EndAlsoIfTheProcessOfTheReaderGoesBeforeTheyBegin) {
  const auto lost = std::make_shared<std::atomic<int>>(0);  // shared with the callback
  far_system->watch_lost_peers([lost](const ProcessRef&, const Error&) { ++*lost; });
  auto other = source_process("other");
  const auto source = other->named<Source>(other->connect(far_system->self().address), "source");
  SlowArgument::decoding = 0;
  SlowArgument::held = true;
  auto values = source.stream<&Source::count_slowly>(SlowArgument(), 1000);
  EXPECT_TRUE(eventually([] { return SlowArgument::decoding == 1; }));
  other->declare_dead(far_system->self().id, Error(ErrorCode::kPeerDied, "a test"));
  EXPECT_TRUE(eventually([&] { return *lost == 1; }));
  EXPECT_EQ(Source::produced, 0);
  SlowArgument::held = false;
  EXPECT_TRUE(eventually([] { return Source::ended == 1; }));
  EXPECT_LE(Source::produced, static_cast<int>(kStreamWindowValues));
  // More calls than the actor's mailbox takes from one process without reports.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(far.call<&Source::answer>().get(), 42);
  EXPECT_THAT(all_of(far.stream<&Source::count>(3)), ElementsAre(0, 1, 2));
}

TEST_F(Generators, FailWithTheirProcessAfterTheValuesThatHaveCome) {
  auto values = far.stream<&Source::gated>(2);
  EXPECT_EQ(values.next().get()->value(), 0);
  kill();
  const auto last = values.next().get();
  EXPECT_EQ(last->error().code(), ErrorCode::kPeerDied);
  EXPECT_EQ(last->error().progress(), CallProgress::kStarted);
  EXPECT_THAT(last->error().message(), HasSubstr("worker died: SIGKILL"));
  EXPECT_THAT(last->error().message(), HasSubstr("had given values and did not end"));
  EXPECT_FALSE(values.next().get());
}

TEST_F(Generators, FailAtTheirDeadlineWhichCountsFromTheCall) {
  // One waits at a co_await, the other one for its reader.
  auto gated = far.within(500ms).stream<&Source::gated>(2);
  auto unread = near.within(500ms).stream<&Source::count>(1000);
  EXPECT_TRUE(eventually([] { return Source::ended == 2; }));
  for (auto* values : {&gated, &unread}) {
    std::vector<int> read;
    auto next = values->next().get();
    for (; next && next->ok(); next = values->next().get()) read.push_back(next->value());
    EXPECT_LE(read.size(), kStreamWindowValues) << "values that came in time stay";
    ASSERT_TRUE(next);
    EXPECT_EQ(next->error().code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(next->error().message(),
                HasSubstr("did not end by its deadline; it had given values and did not end"));
    EXPECT_THAT(next->error().message(), HasSubstr("within(kNoDeadline)"));
    EXPECT_FALSE(values->next().get());
  }
}

TEST_F(Generators, RunAloneUnlessTheyAreConcurrent) {
  auto values = far.stream<&Source::count>(100);
  EXPECT_TRUE(eventually([] { return Source::produced == kStreamWindowValues; }));
  auto answer = far.call<&Source::answer>();
  EXPECT_FALSE(answer.wait_for(20ms)) << "the state of the actor is that of its generator";
  for (int i = 0; i < 100; ++i) EXPECT_EQ(values.next().get()->value(), i);
  EXPECT_EQ(answer.get(), 42);
  auto first = far.stream<&Source::count_beside_others>(100);
  auto second = far.stream<&Source::count_beside_others>(100);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(first.next().get()->value(), i);
    EXPECT_EQ(second.next().get()->value(), i);
  }
  EXPECT_FALSE(first.next().get());
  EXPECT_FALSE(second.next().get());
}

TEST_F(Generators, LetUrgentCallsRunAlsoIfTheyNeverWait) {
  for (const auto& source : {far, near}) {
    auto values = source.stream<&Source::until_halted>();
    std::jthread other([&] { source.call<&Source::halt>().get(); });
    for (auto&& value : values) EXPECT_TRUE(value.ok());
  }
}

TEST_F(Generators, OfAMeshGiveTheValuesOfEachRank) {
  std::vector<std::unique_ptr<System>> workers;
  std::vector<ProcessRef> processes;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(source_process("worker" + std::to_string(i)));
    processes.push_back(driver->connect(workers.back()->self().address));
  }
  auto mesh = driver->spawn_mesh<Source>("pool", MeshShape{{"worker", 3}}, processes);
  std::map<std::size_t, std::vector<std::int64_t>> values;
  for (auto&& [rank, value] : mesh.stream<&Source::ranks>()) values[rank].push_back(value.value());
  EXPECT_EQ(values, (std::map<std::size_t, std::vector<std::int64_t>>{{1, {1}}, {2, {2, 2}}}));
  int errors = 0, read = 0;
  for (auto&& [rank, value] : mesh.stream<&Source::fail_after>(2)) ++(value.ok() ? read : errors);
  EXPECT_EQ(errors, 3);
  EXPECT_EQ(read, 6);
}

TEST_F(Generators, GiveManyValues) {
  for (const auto& source : {far, near}) {
    const auto values = all_of(source.stream<&Source::count>(10'000));
    ASSERT_EQ(values.size(), 10'000u);
    for (int i = 0; i < 10'000; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i);
  }
}

TEST_F(Generators, GiveValuesLargerThanTheWindow) {
  for (const auto& source : {far, near}) {
    Source::reset();
    auto values = source.stream<&Source::texts>(3, 3 << 20);
    EXPECT_TRUE(eventually([] { return Source::produced == 1; }));
    for (int i = 0; i < 3; ++i) {
      const auto next = values.next().get();
      EXPECT_EQ(next->value(), std::string(3 << 20, static_cast<char>('a' + i)));
      EXPECT_LE(Source::produced, i + 2) << "one value is ahead of the reader";
    }
    EXPECT_FALSE(values.next().get());
    auto too_large = source.stream<&Source::texts>(2, 65 << 20);
    EXPECT_EQ(too_large.next().get()->error().code(), ErrorCode::kResourceExhausted);
    EXPECT_FALSE(too_large.next().get());
  }
}

TEST_F(Generators, EndWhenTheirActorStops) {
  auto values = near.stream<&Source::count>(1000);
  EXPECT_TRUE(eventually([] { return Source::produced == kStreamWindowValues; }));
  near.stop().get();
  EXPECT_EQ(Source::ended, 1);
  for (int i = 0; i < static_cast<int>(kStreamWindowValues); ++i)
    EXPECT_EQ(values.next().get()->value(), i);
  EXPECT_EQ(values.next().get()->error().code(), ErrorCode::kCancelled);
  EXPECT_FALSE(values.next().get());
}

TEST_F(Generators, AreReadInHandlers) {
  EXPECT_EQ(near.call<&Source::sum>(far, 1000).get(), 499'500);
  EXPECT_EQ(far.call<&Source::sum_in_thread>(near, 1000).get(), 499'500);
  EXPECT_THAT(all_of(near.stream<&Source::relay>(far, 3)), ElementsAre(0, 1, 2));
}

TEST_F(Generators, AreCancelledWithTheHandlersThatReadThem) {
  auto read = near.call<&Source::read_gated>(far);
  EXPECT_TRUE(eventually([] { return Source::produced == 1; }));
  read.cancel();
  EXPECT_TRUE(eventually([] { return Source::ended == 1; }));
  Source::reset();
  auto values = std::make_optional(near.stream<&Source::relay>(far, 1'000'000));
  EXPECT_EQ(values->next().get()->value(), 0);
  values.reset();
  EXPECT_TRUE(eventually([] { return Source::ended == 2; })) << "the inner one, too";
  EXPECT_EQ(far.call<&Source::answer>().get(), 42);
}

TEST_F(Generators, RunOnSharedThreads) {
  const auto source = driver->host<Source>(ActorThread::kShared, "shared");
  EXPECT_EQ(near.call<&Source::sum>(source, 1000).get(), 499'500);
  Source::reset();
  { auto dropped = source.stream<&Source::count>(1000); }
  EXPECT_EQ(source.call<&Source::answer>().get(), 42);
}

TEST_F(Generators, AreSeenToWaitForTheirReader) {
  auto values = far.stream<&Source::count>(1000);
  const auto waits = [&] {
    const auto surveys =
        driver->survey(far_system->self(), {{{far_system->self().id}}, 5'000'000'000}, 5s).get();
    for (const ProcessSurvey& process : surveys)
      for (const ActorSurvey& actor : process.actors)
        for (const RunningHandler& running : actor.running)
          if (running.method == "count") return running.waits_for_reader;
    return false;
  };
  EXPECT_TRUE(eventually(waits));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(values.next().get()->value(), i);
  EXPECT_FALSE(values.next().get());
  EXPECT_FALSE(waits());
}

/// Source in the process "old" that its owner restarts in another one.
struct RestartedGenerators : testing::Test {
  void SetUp() override {
    Source::reset();
    (void)old_system->host<Source>("source");
    owner.listen({"127.0.0.1", 0});
    address = {old_system->self(), actor_id_of("source"), "source", owner.self()};
    owner.supervise(address);
    source = owner.ref<Source>(address);
    EXPECT_EQ(source.call<&Source::answer>().get(), 42);
  }
  /// Restarts the source in the process "next".
  void restart() {
    owner.restart_begins(address);
    owner.declare_dead(old_system->self().id, Error(ErrorCode::kPeerDied, "old died: SIGKILL"));
    (void)next_system->host<Source>("source");
    owner.restart_ends(
        address, ActorAddress{next_system->self(), actor_id_of("source"), "source", owner.self()});
  }
  System owner{test::system_options("owner")};
  std::unique_ptr<System> old_system = source_process("old"), next_system = source_process("next");
  ActorAddress address;
  ActorRef<Source> source;
};

TEST_F(RestartedGenerators, AreNotRepeatedOnceTheyHaveYielded) {
  auto values = source.stream<&Source::gated>(2);  // idempotent
  EXPECT_EQ(values.next().get()->value(), 0);
  auto waiting = source.stream<&Source::gated>(1);  // waits in the mailbox
  restart();
  EXPECT_EQ(values.next().get()->error().code(), ErrorCode::kPeerDied);
  EXPECT_FALSE(values.next().get());
  EXPECT_EQ(waiting.next().get()->value(), 0) << "it had not yielded, so it runs again";
  EXPECT_FALSE(waiting.next().get());
}

TEST_F(RestartedGenerators, WaitForTheRestartLikeCalls) {
  owner.restart_begins(address);
  auto values = source.stream<&Source::count>(2);
  restart();
  EXPECT_EQ(values.next().get()->value(), 0);
  EXPECT_EQ(values.next().get()->value(), 1);
  EXPECT_FALSE(values.next().get());
}

}  // namespace
}  // namespace weft::actors
