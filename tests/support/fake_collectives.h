#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/tensor/bfloat16.h"
#include "tests/support/thread_stream.h"
#include "transfer/nccl/device_collectives.h"

namespace weft::test {

/// GPU collectives without GPUs. Each rank has a device in host memory, streams that progress when
/// a test polls, and communicators with NCCL's rules. The collectives also work on any
/// ThreadStream. Thread-safe.
///
/// As with NCCL, an operation blocks its stream until all members have joined. error() describes
/// how members' operations differ, if they do. stuck() lists blocked streams.
class FakeWorld {
 public:
  class Device;
  class Collectives;
  struct Options {
    /// True if a communicator is busy from its first use until all members have used it, like lazy
    /// connections.
    bool connects_lazily = false;
    /// True if other members' communicators report the death of a rank.
    bool sees_death = true;
  };

  FakeWorld() = default;
  explicit FakeWorld(Options options) : options_(options) {}

  /// Runs all streams until none progresses.
  void run() {
    const std::lock_guard lock(mutex_);
    progress();
  }
  /// Returns a line per blocked stream. Empty if all streams are done.
  std::string stuck() {
    const std::lock_guard lock(mutex_);
    progress();
    std::string text;
    for (const auto& stream : streams_) {
      if (!stream->tasks.empty())
        text += fmt::format("\n  rank {} stands at {}", stream->rank, stream->tasks.front().what);
    }
    return text;
  }
  /// Returns how members' operations differed. Empty if they did not.
  std::string error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  /// Simulates the death of a device's process and clears its streams. Later work of the device
  /// completes at once without effect.
  void kill(std::uint32_t device) {
    const std::lock_guard lock(mutex_);
    dead_.insert(device);
    for (const auto& stream : streams_) {
      if (stream->rank == device) stream->tasks.clear();
    }
    changed_.notify_all();
  }
  /// Returns the number of created communicators, counted once per member.
  std::size_t created() const {
    const std::lock_guard lock(mutex_);
    return created_;
  }

 private:
  struct Task {
    std::string what;
    std::function<bool()> attempt;  ///< Returns true if the task is done.
  };
  struct StreamState {
    std::uint32_t rank = 0;
    std::deque<Task> tasks;
  };
  struct Posted {
    transfer::DeviceCall call;
    bool done = false;
  };
  using PostedCall = std::shared_ptr<Posted>;
  struct Group {
    int size = 0;
    std::vector<int> device_of_rank;  ///< -1 if not joined yet.
    std::vector<bool> aborted;
    std::vector<std::vector<PostedCall>> collectives;             ///< Per rank, in order.
    std::map<std::pair<int, int>, std::deque<PostedCall>> sends;  ///< Key: (sender, receiver).
    std::map<std::pair<int, int>, std::deque<PostedCall>> receives;
    std::set<int> used;  ///< Ranks that have enqueued a collective operation.
    /// Pairs (rank, peer): the rank has enqueued a send to or a receive from the peer.
    std::set<std::pair<int, int>> met;
    std::set<int> finalized;
    std::map<std::vector<int>, std::string> shrunk;  ///< Excluded ranks -> id of the rest.
  };
  class Communicator;
  class FakeStream;
  class FakeEvent;

  void progress() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < streams_.size(); ++i) {
        auto& tasks = streams_[i]->tasks;
        while (!tasks.empty() && tasks.front().attempt()) {
          tasks.pop_front();
          moved = true;
        }
      }
    }
  }
  void fail(const std::string& what) {
    if (error_.empty()) error_ = what;
  }
  inline void post(Group& group, int rank, const PostedCall& call);
  inline void complete_collective(Group& group, std::size_t index);

  /// Queues a task on a stream of `device`. Blocks the stream until `attempt`, called under the
  /// lock, returns true.
  inline void perform(Stream& stream, std::uint32_t device, std::string what,
                      std::function<bool()> attempt);
  /// Returns a function that maps device addresses to real memory, for tasks of the stream.
  static inline std::function<std::byte*(const std::byte*, std::size_t)> memory_of(Stream& stream);

  const Options options_{};
  mutable std::recursive_mutex mutex_;
  std::condition_variable_any changed_;                   // wakes tasks that wait for other members
  std::vector<std::shared_ptr<StreamState>> streams_;     // this and all below: guarded by mutex_
  std::map<std::string, std::shared_ptr<Group>> groups_;  // by id
  std::set<std::uint32_t> dead_;
  std::string error_;
  std::size_t created_ = 0;
  std::size_t ids_ = 0;
};

class FakeWorld::FakeEvent final : public Event {
 public:
  explicit FakeEvent(FakeWorld& world) : world_(world) {}
  bool done() const override {
    const std::lock_guard lock(world_.mutex_);
    world_.progress();
    return *state;
  }
  void synchronize() const override { WEFT_CHECK(done(), "a test waits for what cannot come"); }

  std::shared_ptr<bool> state = std::make_shared<bool>(false);  // shared with the task that sets it

 private:
  FakeWorld& world_;
};

class FakeWorld::FakeStream final : public Stream {
 public:
  FakeStream(FakeWorld& world, std::uint32_t rank)
      : world_(world), state_(std::make_shared<StreamState>()) {
    state_->rank = rank;
    const std::lock_guard lock(world_.mutex_);
    world_.streams_.push_back(state_);
  }
  ~FakeStream() override {
    const std::lock_guard lock(world_.mutex_);
    std::erase(world_.streams_, state_);
  }

  void add(std::span<const float> from, std::span<float> to) override {
    queue("add", [from, to] {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    });
  }
  void copy(std::span<const std::byte> from, std::span<std::byte> to) override {
    queue("copy", [from, to] { std::memmove(to.data(), from.data(), to.size()); });
  }
  void fill_zero(std::span<std::byte> memory) override {
    queue("fill", [memory] { std::memset(memory.data(), 0, memory.size()); });
  }
  std::unique_ptr<Event> record() override {
    auto event = std::make_unique<FakeEvent>(world_);
    {
      const std::lock_guard lock(world_.mutex_);
      *event->state = world_.dead_.contains(state_->rank);
    }
    queue("event", [state = event->state] { *state = true; });
    return event;
  }
  void wait(const Event& event) override {
    attempt("a wait", [state = dynamic_cast<const FakeEvent&>(event).state] { return *state; });
  }
  void synchronize() override { record()->synchronize(); }

  void run(const Op&, std::span<const ConstTensorRef>, std::span<const TensorRef>,
           std::span<const OutputMode>) override {
    refuse();
  }
  void adamw(const AdamW&, std::span<const AdamWParameter>) override { refuse(); }
  void sums_of_squares(std::span<const std::span<const float>>, std::span<double>) override {
    refuse();
  }

  void attempt(std::string what, std::function<bool()> task) {
    const std::lock_guard lock(world_.mutex_);
    if (!world_.dead_.contains(state_->rank))
      state_->tasks.push_back({std::move(what), std::move(task)});
  }
  void queue(std::string what, std::function<void()> task) {
    attempt(std::move(what), [task = std::move(task)] {
      task();
      return true;
    });
  }

 private:
  [[noreturn]] static void refuse() {
    throw_error(ErrorCode::kInternal, "this device only copies and adds");
  }

  FakeWorld& world_;
  std::shared_ptr<StreamState> state_;  // shared with the world, which runs it
};

/// Device with plain memory, so that tests can read it.
class FakeWorld::Device final : public weft::Device {
 public:
  Device(FakeWorld& world, std::uint32_t rank) : world_(world), rank_(rank) {}
  std::string description() const override { return "fake GPU"; }
  bool is_host_memory() const override { return true; }
  DeviceMemory allocate(std::size_t bytes) override {
    auto* const data = static_cast<std::byte*>(
        std::aligned_alloc(256, (std::max<std::size_t>(bytes, 1) + 255) / 256 * 256));
    std::memset(data, 0xcd, bytes);
    return {*this, data, bytes};
  }
  std::unique_ptr<Stream> create_stream() override {
    return std::make_unique<FakeStream>(world_, rank_);
  }

 private:
  void release(std::byte* data, std::size_t) noexcept override { std::free(data); }
  FakeWorld& world_;
  const std::uint32_t rank_;
};

class FakeWorld::Communicator final : public transfer::DeviceCommunicator {
 public:
  Communicator(FakeWorld& world, std::shared_ptr<Group> group, int rank, std::uint32_t device)
      : world_(world), group_(std::move(group)), rank_(rank), device_(device) {
    group_->device_of_rank.at(rank) = device;
    ++world_.created_;
  }
  ~Communicator() override {
    const std::lock_guard lock(world_.mutex_);
    if (std::ssize(group_->finalized) != group_->size) let_go();
  }

  State poll() override {
    const std::lock_guard lock(world_.mutex_);
    world_.progress();
    if (!world_.error_.empty()) throw_error(ErrorCode::kInternal, "{}", world_.error_);
    if (group_->aborted[rank_]) return State::kReady;
    bool busy = finalizing_ && std::ssize(group_->finalized) != group_->size;
    for (std::size_t rank = 0; rank < group_->device_of_rank.size(); ++rank) {
      const int device = group_->device_of_rank[rank];
      busy = busy || device < 0;
      if (world_.options_.sees_death && device >= 0 && world_.dead_.contains(device))
        throw_error(ErrorCode::kPeerDied, "rank {} of the communicator has died", rank);
    }
    busy = busy || (world_.options_.connects_lazily && connecting());
    return busy ? State::kBusy : State::kReady;
  }

  void enqueue(std::span<const transfer::DeviceCall> calls, Stream& stream) override {
    {
      const std::lock_guard lock(world_.mutex_);
      for (const transfer::DeviceCall& call : calls) {
        if (call.kind == transfer::CallKind::kSend || call.kind == transfer::CallKind::kReceive)
          group_->met.emplace(rank_, call.peer);
        else group_->used.insert(rank_);
      }
    }
    std::vector<PostedCall> posted;
    std::string what = "round:";
    for (const transfer::DeviceCall& call : calls) {
      posted.push_back(std::make_shared<Posted>(Posted{call}));
      what += fmt::format(" {}({}, {})", to_string(call.kind), call.count, call.peer);
    }
    world_.perform(stream, device_, what,
                   [&world = world_, group = group_, rank = rank_, posted = std::move(posted),
                    real = memory_of(stream), begun = false]() mutable {
                     if (group->aborted[rank]) return true;
                     if (!begun) {
                       begun = true;
                       for (const PostedCall& call : posted) {
                         locate(call->call, group->size, real);
                         world.post(*group, rank, call);
                       }
                       world.changed_.notify_all();
                     }
                     return std::all_of(posted.begin(), posted.end(),
                                        [](const PostedCall& call) { return call->done; });
                   });
  }

  void finalize() override {
    const std::lock_guard lock(world_.mutex_);
    finalizing_ = true;
    group_->finalized.insert(rank_);
  }
  void stop() noexcept override {
    const std::lock_guard lock(world_.mutex_);
    let_go();
  }
  void abort() noexcept override { stop(); }
  std::unique_ptr<transfer::DeviceCommunicator> shrink(std::span<const int> excluded) override {
    const std::lock_guard lock(world_.mutex_);
    WEFT_CHECK(group_->aborted[static_cast<std::size_t>(rank_)], "shrink() comes after stop()");
    std::string& id = group_->shrunk[{excluded.begin(), excluded.end()}];
    if (id.empty()) id = fmt::format("shrunk {}", ++world_.ids_);
    auto& rest = world_.groups_[id];
    if (rest == nullptr) rest = make_group(group_->size - std::ssize(excluded));
    const auto before =
        std::count_if(excluded.begin(), excluded.end(), [&](int rank) { return rank < rank_; });
    return std::make_unique<Communicator>(world_, rest, rank_ - static_cast<int>(before), device_);
  }

  static std::shared_ptr<Group> make_group(int size) {
    auto group = std::make_shared<Group>();
    group->size = size;
    group->device_of_rank.assign(size, -1);
    group->aborted.assign(size, false);
    group->collectives.resize(size);
    return group;
  }

 private:
  static void locate(transfer::DeviceCall& call, int size,
                     const std::function<std::byte*(const std::byte*, std::size_t)>& real) {
    const std::size_t bytes = call.count * size_of(call.dtype), all = bytes * size;
    if (call.from != nullptr)
      call.from = real(call.from, call.kind == transfer::CallKind::kReduceScatter ? all : bytes);
    if (call.to != nullptr)
      call.to = real(call.to, call.kind == transfer::CallKind::kAllGather ? all : bytes);
  }
  /// True if a peer of this rank's operations has not joined yet.
  bool connecting() const {
    return (group_->used.contains(rank_) && std::ssize(group_->used) < group_->size) ||
           std::any_of(group_->met.begin(), group_->met.end(), [&](const auto& pair) {
             return pair.first == rank_ && !group_->met.contains({pair.second, rank_});
           });
  }
  void let_go() {
    group_->aborted[rank_] = true;
    world_.changed_.notify_all();
    world_.progress();
  }

  FakeWorld& world_;
  std::shared_ptr<Group> group_;  // shared with the other members and with tasks
  const int rank_;
  const std::uint32_t device_;
  bool finalizing_ = false;
};

/// Collectives of one device.
class FakeWorld::Collectives final : public transfer::DeviceCollectives {
 public:
  Collectives(FakeWorld& world, std::uint32_t device) : world_(world), device_(device) {}

  std::string description() const override { return "fake collectives"; }
  std::vector<std::byte> make_id() override {
    const std::lock_guard lock(world_.mutex_);
    const std::string id = fmt::format("made {}", ++world_.ids_);
    const auto bytes = std::as_bytes(std::span(id));
    return {bytes.begin(), bytes.end()};
  }
  std::unique_ptr<transfer::DeviceCommunicator> create(std::span<const std::byte> id, int size,
                                                       int rank, const std::string&) override {
    const std::lock_guard lock(world_.mutex_);
    auto& group = world_.groups_[std::string(reinterpret_cast<const char*>(id.data()), id.size())];
    if (group == nullptr) group = Communicator::make_group(size);
    WEFT_CHECK(group->size == size && group->device_of_rank[static_cast<std::size_t>(rank)] < 0,
               "an id is used for two communicators");
    return std::make_unique<Communicator>(world_, group, rank, device_);
  }
  void copy(std::span<const transfer::DeviceCopy> copies, Stream& stream) override {
    for (const transfer::DeviceCopy& copy : copies) {
      const std::vector<transfer::StridedCopy::Dimension> outer(copy.outer.begin(),
                                                                copy.outer.end());
      world_.perform(stream, device_, "copy", [copy, outer, real = memory_of(stream)] {
        std::size_t from_bytes = copy.run_bytes, to_bytes = copy.run_bytes;
        for (const auto& dimension : outer) {
          from_bytes += (dimension.count - 1) * dimension.from_stride;
          to_bytes += (dimension.count - 1) * dimension.to_stride;
        }
        copy_box(real(copy.from, from_bytes), real(copy.to, to_bytes), copy.run_bytes, outer);
        return true;
      });
    }
  }
  void sum(const transfer::DeviceSum& sum, Stream& stream) override {
    std::vector<const std::byte*> terms(sum.terms.begin(), sum.terms.end());
    world_.perform(stream, device_, "sum",
                   [sum, terms = std::move(terms), real = memory_of(stream)]() mutable {
                     const std::size_t bytes = sum.count * size_of(sum.dtype);
                     for (const std::byte*& term : terms) term = real(term, bytes);
                     add_up(sum.dtype, sum.count, terms, real(sum.to, bytes));
                     return true;
                   });
  }

  /// Sums in the order of `terms`.
  static void add_up(DType dtype, std::uint64_t count, const std::vector<const std::byte*>& terms,
                     std::byte* to) {
    switch (dtype) {
      case DType::kF32: return add_up_as<float, float>(count, terms, to);
      case DType::kF64: return add_up_as<double, double>(count, terms, to);
      case DType::kI32: return add_up_as<std::int32_t, std::int32_t>(count, terms, to);
      case DType::kBF16: return add_up_as<BFloat16, float>(count, terms, to);
      case DType::kU8: break;
    }
    WEFT_CHECK(false, "a sum of {}", to_string(dtype));
  }

 private:
  template <typename T, typename Sum>
  static void add_up_as(std::uint64_t count, const std::vector<const std::byte*>& terms,
                        std::byte* to) {
    for (std::uint64_t i = 0; i < count; ++i) {
      Sum sum{};
      for (std::size_t term = 0; term < terms.size(); ++term) {
        T value;
        std::memcpy(&value, terms[term] + i * sizeof(T), sizeof(T));
        sum = term == 0 ? static_cast<Sum>(value) : sum + static_cast<Sum>(value);
      }
      const T result(sum);
      std::memcpy(to + i * sizeof(T), &result, sizeof(T));
    }
  }
  static void copy_box(const std::byte* from, std::byte* to, std::uint64_t run_bytes,
                       std::span<const transfer::StridedCopy::Dimension> outer) {
    if (outer.empty()) {
      std::memcpy(to, from, run_bytes);
      return;
    }
    for (std::uint64_t i = 0; i < outer[0].count; ++i)
      copy_box(from + i * outer[0].from_stride, to + i * outer[0].to_stride, run_bytes,
               outer.subspan(1));
  }

  FakeWorld& world_;
  const std::uint32_t device_;
};

inline void FakeWorld::perform(Stream& stream, std::uint32_t device, std::string what,
                               std::function<bool()> attempt) {
  if (auto* const looked_at = dynamic_cast<FakeStream*>(&stream))
    return looked_at->attempt(std::move(what), std::move(attempt));
  dynamic_cast<ThreadStream&>(stream).perform([this, device, attempt = std::move(attempt)] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return dead_.contains(device) || attempt(); });
  });
}

inline std::function<std::byte*(const std::byte*, std::size_t)> FakeWorld::memory_of(
    Stream& stream) {
  if (auto* const by_itself = dynamic_cast<ThreadStream*>(&stream)) {
    return [by_itself](const std::byte* address, std::size_t size) {
      return by_itself->real(address, size);
    };
  }
  return [](const std::byte* address, std::size_t) { return const_cast<std::byte*>(address); };
}

inline void FakeWorld::post(Group& group, int rank, const PostedCall& call) {
  using transfer::CallKind;
  if (call->call.kind == CallKind::kSend || call->call.kind == CallKind::kReceive) {
    const bool sends = call->call.kind == CallKind::kSend;
    const auto pair = sends ? std::pair(rank, call->call.peer) : std::pair(call->call.peer, rank);
    (sends ? group.sends : group.receives)[pair].push_back(call);
    auto& sent = group.sends[pair];
    auto& received = group.receives[pair];
    while (!sent.empty() && !received.empty()) {
      Posted& from = *sent.front();
      Posted& to = *received.front();
      if (from.call.count != to.call.count || from.call.dtype != to.call.dtype)
        fail(fmt::format("rank {} sends {} elements to rank {}, which receives {}", pair.first,
                         from.call.count, pair.second, to.call.count));
      else std::memcpy(to.call.to, from.call.from, to.call.count * size_of(to.call.dtype));
      from.done = to.done = true;
      sent.pop_front();
      received.pop_front();
    }
    return;
  }
  auto& own = group.collectives[rank];
  own.push_back(call);
  complete_collective(group, own.size() - 1);
}

inline void FakeWorld::complete_collective(Group& group, std::size_t index) {
  using transfer::CallKind;
  std::vector<Posted*> ranks;
  for (const auto& posted : group.collectives) {
    if (posted.size() <= index) return;
    ranks.push_back(posted[index].get());
  }
  const transfer::DeviceCall& first = ranks[0]->call;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const transfer::DeviceCall& call = ranks[r]->call;
    ranks[r]->done = true;
    if (call.kind != first.kind || call.dtype != first.dtype || call.op != first.op ||
        call.peer != first.peer || call.count != first.count) {
      return fail(fmt::format(
          "operation {} of a communicator is {} of {} on rank 0 and {} of {} on rank {}", index,
          to_string(first.kind), first.count, to_string(call.kind), call.count, r));
    }
  }
  const std::size_t size = first.count * size_of(first.dtype);
  // Computes into a copy, because outputs may overlap inputs.
  std::vector<std::byte> result;
  if (first.kind == CallKind::kBroadcast) {
    const std::byte* root = ranks[first.peer]->call.from;
    result.assign(root, root + size);
  } else if (first.kind == CallKind::kAllGather) {
    for (const Posted* rank : ranks)
      result.insert(result.end(), rank->call.from, rank->call.from + size);
  } else {
    // Not in rank order, just like a library's sums.
    const std::uint64_t count =
        first.kind == CallKind::kReduceScatter ? first.count * ranks.size() : first.count;
    std::vector<const std::byte*> terms;
    for (std::size_t r = ranks.size(); r-- > 0;) terms.push_back(ranks[r]->call.from);
    result.resize(count * size_of(first.dtype));
    WEFT_CHECK(first.op == transfer::ReduceOp::kSum, "the fake sums only");
    Collectives::add_up(first.dtype, count, terms, result.data());
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::byte* to = ranks[r]->call.to;
    if (first.kind == CallKind::kReduceScatter) std::memcpy(to, result.data() + r * size, size);
    else if (to != nullptr) std::memcpy(to, result.data(), result.size());
  }
}

}  // namespace weft::test
