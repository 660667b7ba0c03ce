#include "tests/simulation/tiny_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "core/base/error.h"

namespace weft::simulation {
namespace {

constexpr std::int64_t kCounters = 3;
constexpr auto kCallWithin = std::chrono::seconds(20);
constexpr auto kBeat = std::chrono::milliseconds(50);
constexpr std::size_t kRestarts = 1000;
constexpr std::uint64_t kPlantedCall = 20;

/// Child of a counter. Reports if it runs after a later incarnation of its parent has served.
class TinyChild final {
 public:
  using Arguments = std::tuple<std::string, std::uint64_t>;
  TinyChild(actors::Context& context, ServiceRecords& records, std::string parent,
            std::uint64_t incarnation)
      : records_(records),
        parent_(std::move(parent)),
        incarnation_(incarnation),
        beat_(context.every(kBeat, [this] { check(); })) {}

  void check() {
    if (records_.serving[parent_] <= incarnation_ || records_.is_cut_off()) return;
    records_.violations.push_back(
        fmt::format("a child of incarnation {} of {} runs, and incarnation {} has served",
                    incarnation_, parent_, records_.serving[parent_]));
  }

  static constexpr auto endpoints =
      actors::interface<"simulation.child", 1>(actors::on<&TinyChild::check>("check"));

 private:
  ServiceRecords& records_;
  const std::string parent_;
  const std::uint64_t incarnation_;
  const actors::ActorTimer beat_;
};

/// Actor of the service.
class TinyCounter final {
 public:
  using Arguments = std::tuple<>;
  TinyCounter(actors::Context& context, ServiceRecords& records, Plant plant)
      : context_(context),
        records_(records),
        plant_(plant),
        key_(fmt::format("{}/{}", context.system().options().run, context.name())),
        incarnation_(++records.incarnations) {}

  /// Runs the call of that number, at most once.
  actors::task<int> count(std::uint64_t call) {
    serve();
    const int executions = execute(call);
    if (executions > 1)
      records_.violations.push_back(
          fmt::format("call {} of {}, which is not idempotent, runs again", call, key_));
    if (!std::exchange(has_child_, true)) {
      const std::uint64_t parent = plant_ == Plant::kChildrenLiveOn ? 0 : incarnation_;
      auto spawning = context_.spawn<TinyChild>(fmt::format("child-{}", context_.place().rank),
                                                actors::SpawnOptions{}, key_, parent);
      try {
        co_await spawning;
      } catch (const Error&) {
        has_child_ = false;
        throw;
      }
    }
    co_return executions;
  }
  int read(std::uint64_t call) {
    serve();
    return execute(call);
  }

  static constexpr auto endpoints = actors::interface<"simulation.counter", 1>(
      actors::on<&TinyCounter::count>("count"),
      actors::on<&TinyCounter::read>("read", actors::idempotent));

 private:
  int execute(std::uint64_t call) {
    if (call != kPlantedCall) return ++records_.executions[call];
    if (plant_ == Plant::kLosesCall) return 1;
    if (plant_ == Plant::kRunsCallTwice) ++records_.executions[call];
    return ++records_.executions[call];
  }
  void serve() {
    std::uint64_t& latest = records_.serving[key_];
    const std::uint64_t self =
        plant_ == Plant::kFormerActorServes && latest > 0 ? latest - 1 : incarnation_;
    if (self < latest)
      records_.violations.push_back(
          fmt::format("incarnation {} of {} serves after incarnation {}", self, key_, latest));
    latest = std::max(latest, self);
  }

  actors::Context& context_;
  ServiceRecords& records_;
  const Plant plant_;
  const std::string key_;
  const std::uint64_t incarnation_;
  bool has_child_ = false;
};

}  // namespace

/// Actors of the service, and their calls under way.
class TinyService::Calls final {
 public:
  struct Pending {
    std::uint64_t number;
    actors::Future<int> result;
  };
  explicit Calls(actors::ActorMesh<TinyCounter> counters) : counters_(std::move(counters)) {}

  void begin(std::uint64_t number) {
    const auto counter = counters_.rank(number % kCounters).within(kCallWithin);
    pending_.push_back({number, number % 2 == 0 ? counter.call<&TinyCounter::count>(number)
                                                : counter.call<&TinyCounter::read>(number)});
  }
  std::vector<Pending> take_ended(bool all) {
    std::vector<Pending> ended, waiting;
    for (Pending& call : pending_)
      (all || call.result.ready() ? ended : waiting).push_back(std::move(call));
    pending_ = std::move(waiting);
    return ended;
  }

 private:
  actors::ActorMesh<TinyCounter> counters_;
  std::vector<Pending> pending_;
};

TinyService::TinyService(ServiceRecords& records, actors::Cluster& cluster, Plant plant, bool calm)
    : records_(records), cluster_(cluster), plant_(plant), calm_(calm) {}

TinyService::~TinyService() = default;

void TinyService::provide(actors::AppMain& app, ServiceRecords& records, Plant plant) {
  app.provide<TinyChild>(
      [&records](actors::Context& context, std::string parent, std::uint64_t incarnation) {
        return std::make_unique<TinyChild>(context, records, std::move(parent), incarnation);
      });
  app.provide<TinyCounter>([&records, plant](actors::Context& context) {
    return std::make_unique<TinyCounter>(context, records, plant);
  });
}

void TinyService::start() {
  try {
    calls_ = std::make_unique<Calls>(cluster_.spawn<TinyCounter>(
        "counters", {{"counter", kCounters}},
        actors::SpawnOptions{.place = actors::spread(), .restarts = kRestarts}));
  } catch (const Error& error) {
    // The next step tries again, unless the head is away, perhaps for good.
    if (calm_) violation("the service does not start: " + error.message());
    gave_up_ = error.code() != ErrorCode::kPeerDied;
  }
}

void TinyService::step() {
  if (!calls_ && !gave_up_) start();
  if (!calls_) return;
  calls_->begin(++records_.calls);
  check(false);
}

void TinyService::finish() {
  if (calls_) check(true);
}

void TinyService::check(bool all) {
  for (auto& [number, result] : calls_->take_ended(all)) {
    try {
      result.get();
      if (records_.executions[number] == 0)
        violation(fmt::format("call {} has returned, and has not run", number));
    } catch (const Error& error) {
      if (calm_) violation(fmt::format("call {} failed: {}", number, error.message()));
    }
  }
}

}  // namespace weft::simulation
