#include "tests/simulation/tiny_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "core/base/error.h"
#include "core/base/thread.h"
#include "mesh/objects/object_store.h"
#include "mesh/objects/objects.h"

namespace weft::simulation {
namespace {

using Numbers = std::vector<std::uint32_t>;
using NumbersRef = mesh::ObjectRef<Numbers>;

constexpr std::int64_t kHolders = 4;
constexpr std::size_t kHolderRestarts = 1000;
constexpr std::size_t kMostObjects = 4;
constexpr std::int64_t kLargest = 100'000;  // numbers: four segments
constexpr auto kLongestHold = std::chrono::milliseconds(300);
/// Time in which a get ends, although hosts die and networks are cut meanwhile.
constexpr auto kGetsWithin = std::chrono::seconds(90);
/// Time in which memory is free after its objects were dropped, although networks are cut.
constexpr auto kMemoryFreeWithin = std::chrono::seconds(60);

std::uint32_t number_at(std::uint64_t object, std::size_t at) {
  return static_cast<std::uint32_t>(object * 1'000'003 + at);
}

Numbers numbers_of(std::uint64_t object, std::uint64_t count) {
  Numbers numbers(count);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = number_at(object, i);
  return numbers;
}

bool has_numbers_of(std::uint64_t object, std::span<const std::uint32_t> numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != number_at(object, i)) return false;
  return true;
}

/// Actor that owns and reads objects.
class TinyHolder final {
 public:
  using Arguments = std::tuple<>;
  TinyHolder(actors::Context& context, ObjectRecords& records, Plant plant)
      : context_(context), objects_(context), records_(records), plant_(plant) {}

  actors::task<NumbersRef> put(std::uint64_t object, std::uint64_t count, std::uint32_t copies) {
    auto putting = objects_.put(numbers_of(object, count), {.copies = copies});
    auto owned = co_await putting;
    const NumbersRef ref = owned.ref();
    owned_.insert_or_assign(object, std::move(owned));
    co_return ref;
  }
  /// Gets an object, and reads its bytes again after `hold_ns`.
  actors::task<void> read(NumbersRef ref, std::uint64_t object, std::int64_t hold_ns) {
    auto getting = objects_.get(ref);
    const mesh::Mapped<Numbers> view = co_await getting;
    check(object, view.span(), ref.bytes());
    if (plant_ == Plant::kFreesUnderReaders) release_early(ref.description().id);
    auto holding = context_.sleep(Nanoseconds(hold_ns));
    co_await holding;
    check(object, view.span(), ref.bytes());
  }
  void drop(std::uint64_t object) { owned_.erase(object); }
  void drop_all() { owned_.clear(); }

  static constexpr auto endpoints = actors::interface<"simulation.holder", 1>(
      actors::on<&TinyHolder::put>("put", actors::concurrent),
      actors::on<&TinyHolder::read>("read", actors::concurrent),
      actors::on<&TinyHolder::drop>("drop"), actors::on<&TinyHolder::drop_all>("drop_all"));

 private:
  void check(std::uint64_t object, std::span<const std::uint32_t> numbers, std::uint64_t bytes) {
    if (numbers.size_bytes() != bytes || !has_numbers_of(object, numbers))
      records_.violations.push_back(
          fmt::format("{} reads other bytes of object {} than were put", context_.name(), object));
  }
  /// Tells the other processes that this one reads the object no more, by whatever mapping.
  void release_early(const mesh::ObjectId& id) {
    constexpr std::uint64_t kNumbers = 256;
    std::vector<mesh::Notice> notices;
    for (std::uint64_t number = 0; number < kNumbers; ++number)
      notices.push_back({mesh::Notice::Kind::kReaderDone, id, number});
    for (const actors::ProcessRef& peer : context_.system().peers())
      context_.system()
          .named<mesh::ObjectStore>(peer, actors::kObjectStoreName)
          .tell<&mesh::ObjectStore::notify>(notices);
  }

  actors::Context& context_;
  mesh::Objects objects_;
  ObjectRecords& records_;
  const Plant plant_;
  std::map<std::uint64_t, mesh::OwnedObject<Numbers>> owned_;
};

/// Returns whether a fault elsewhere may be the cause.
bool may_be_fault(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kPeerDied:
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
    case ErrorCode::kResourceExhausted: return true;
    default: return false;
  }
}

}  // namespace

/// Objects of a run, and calls under way.
class TinyObjects::Uses final {
 public:
  explicit Uses(TinyObjects& owner)
      : owner_(owner),
        objects_(owner.cluster_),
        holders_(owner.cluster_.spawn<TinyHolder>(
            "holders", {{"holder", kHolders}},
            actors::SpawnOptions{.place = actors::spread(),
                                 .process = actors::ActorProcess::kOwn,
                                 .restarts = kHolderRestarts})) {}

  void begin() {
    if (living() + puts_.size() < kMostObjects) put();
    for (Object& object : living_) {
      if (object.dropped) continue;
      if (world().chance(0.5)) read(object);
      if (world().chance(0.05))
        shares_.push_back({objects_.share(object.ref, holders_.ref(), kGetsWithin), object.number});
      if (world().chance(0.1)) drop(object);
    }
  }
  /// Checks the calls that have ended, or waits for all.
  void check(bool all) {
    for (Put& put : take_ended(puts_, all)) {
      try {
        if (put.by_driver) {
          auto owned = put.by_driver->get();
          living_.push_back({put.number, owned.ref(), std::nullopt, false});
          owned_.insert_or_assign(put.number, std::move(owned));
        } else {
          living_.push_back({put.number, put.by_holder->get(), put.rank, false});
        }
      } catch (const Error& error) {
        // A second copy needs a process that is connected already.
        judge(error, put.number, "put", put.copies == 2);
      }
    }
    for (Call& call : take_ended(reads_, all)) end(call, "read");
    for (Call& call : take_ended(shares_, all)) end(call, "share");
    for (Call& call : take_ended(drops_, all)) {
      try {
        call.result.get();
      } catch (const Error& error) {
        judge(error, 0, "drop", false);
      }
    }
    if (all) std::erase_if(living_, [](const Object& each) { return each.dropped; });
  }
  void drop_all() {
    owned_.clear();
    for (Object& object : living_) object.dropped = true;
    // Restarted actors have none. Those that cannot be reached drop theirs in the next turn.
    static_cast<void>(
        holders_.within(kMemoryFreeWithin).call_collect<&TinyHolder::drop_all>().get());
  }

 private:
  struct Object {
    std::uint64_t number;
    NumbersRef ref;
    std::optional<std::int64_t> rank;  // of its owner; absent: the driver
    bool dropped;
  };
  struct Put {
    std::uint64_t number;
    std::int64_t rank;
    std::uint32_t copies;
    std::optional<actors::Future<NumbersRef>> by_holder;
    std::optional<actors::Future<mesh::OwnedObject<Numbers>>> by_driver;
    bool ready() const { return by_driver ? by_driver->ready() : by_holder->ready(); }
  };
  struct Call {
    actors::Future<void> result;
    std::uint64_t number;
    bool ready() const { return result.ready(); }
  };
  template <typename T>
  static std::vector<T> take_ended(std::vector<T>& calls, bool all) {
    std::vector<T> ended, waiting;
    for (T& call : calls) (all || call.ready() ? ended : waiting).push_back(std::move(call));
    calls = std::move(waiting);
    return ended;
  }

  ClusterWorld& world() { return owner_.world_; }
  std::size_t living() const {
    return std::ranges::count_if(living_, [](const Object& each) { return !each.dropped; });
  }
  bool is_dropped(std::uint64_t number) const {
    return std::ranges::any_of(
        living_, [&](const Object& each) { return each.number == number && each.dropped; });
  }

  void put() {
    const std::uint64_t number = ++owner_.records_.objects;
    const auto count = static_cast<std::uint64_t>(
        world().chance(0.5) ? world().random(0, 1000) : world().random(0, kLargest));
    const std::uint32_t copies =
        (owner_.calm_ || owner_.records_.has_second_copies) && world().chance(0.25) ? 2 : 1;
    const std::int64_t rank = world().random(0, kHolders - 1);
    Put& begun = puts_.emplace_back(Put{number, rank, copies, {}, {}});
    if (world().chance(0.25)) {
      begun.by_driver = objects_.put(numbers_of(number, count), {copies, kGetsWithin});
      return;
    }
    begun.by_holder =
        holders_.within(kGetsWithin).rank(rank).call<&TinyHolder::put>(number, count, copies);
  }
  void read(const Object& object) {
    const std::int64_t hold = world().random(0, Nanoseconds(kLongestHold).count());
    reads_.push_back({holders_.within(kGetsWithin)
                          .rank(world().random(0, kHolders - 1))
                          .call<&TinyHolder::read>(object.ref, object.number, hold),
                      object.number});
  }
  void drop(Object& object) {
    object.dropped = true;
    if (!object.rank) owned_.erase(object.number);
    else
      drops_.push_back(
          {holders_.within(kGetsWithin).rank(*object.rank).call<&TinyHolder::drop>(object.number),
           0});
  }
  void end(Call& call, const char* what) {
    try {
      call.result.get();
    } catch (const Error& error) {
      // A restarted owner has none of the objects of its predecessor.
      const bool is_missing = error.code() == ErrorCode::kNotFound && is_dropped(call.number);
      judge(error, call.number, what, is_missing);
    }
  }
  void judge(const Error& error, std::uint64_t number, const char* what, bool is_explained) {
    if (is_explained || (!owner_.calm_ && may_be_fault(error))) return;
    owner_.violation(fmt::format("{} of object {} ends with {}: {}", what, number,
                                 weft::to_string(error.code()), error.message()));
  }

  TinyObjects& owner_;
  mesh::Objects objects_;
  actors::ActorMesh<TinyHolder> holders_;
  std::vector<Object> living_;  // objects, also those that were dropped
  std::map<std::uint64_t, mesh::OwnedObject<Numbers>> owned_;
  std::vector<Put> puts_;
  std::vector<Call> reads_, shares_, drops_;
};

TinyObjects::TinyObjects(ObjectRecords& records, ClusterWorld& world, actors::Cluster& cluster,
                         bool calm)
    : records_(records), world_(world), cluster_(cluster), calm_(calm) {}

TinyObjects::~TinyObjects() = default;

void TinyObjects::provide(actors::AppMain& app, ObjectRecords& records, Plant plant) {
  app.provide<TinyHolder>([&records, plant](actors::Context& context) {
    return std::make_unique<TinyHolder>(context, records, plant);
  });
}

void TinyObjects::step() {
  if (gave_up_) return;
  try {
    if (!uses_) uses_ = std::make_unique<Uses>(*this);
  } catch (const Error& error) {
    // The next step tries again.
    if (calm_) violation("the holders of objects do not start: " + error.message());
    gave_up_ = error.code() != ErrorCode::kPeerDied;  // the head is away, perhaps for good
    return;
  }
  uses_->begin();
  uses_->check(false);
}

void TinyObjects::finish() {
  if (!uses_) return;
  uses_->check(true);
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + kMemoryFreeWithin;
  Mutex mutex;
  Condition nothing;
  std::unique_lock lock(mutex);
  while (true) {
    uses_->drop_all();
    for (int turn = 0; turn < 20 && world_.memory().num_held() > 0; ++turn)
      nothing.wait_for(lock, std::chrono::milliseconds(50), [] { return false; });
    if (world_.memory().num_held() == 0 || (records_.has_second_copies && !calm_)) return;
    if (clock.now() < give_up) continue;
    return violation(fmt::format("{} copies of objects are left after all owners dropped theirs",
                                 world_.memory().num_held()));
  }
}

}  // namespace weft::simulation
