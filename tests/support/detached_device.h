#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/cpu/cpu_kernels.h"
#include "core/device/device.h"
#include "tests/support/thread_stream.h"

namespace weft::test {

struct DetachedOptions {
  /// Seed of random delays before a stream's tasks. 0 means no delays.
  std::uint64_t shuffle_seed = 0;
  /// Memory in bytes. 0 means no limit.
  std::size_t memory_bytes = 0;
  std::vector<std::string> notes = {};  ///< See Device::notes.
};

/// Device that behaves like a GPU towards the host. Each stream runs in its own thread, and the
/// host's access to device memory faults. Results equal CpuDevice's bit for bit, because both use
/// the same kernels.
///
/// allocate() returns a mapping without access; streams use a separate block. A stream looks up the
/// block when the work runs, so that work on freed memory also fails.
class DetachedDevice final : public Device {
 public:
  explicit DetachedDevice(const DetachedOptions& options = {}) : options_(options) {}

  std::string description() const override { return "detached (CPU kernels on threads)"; }
  bool is_host_memory() const override { return false; }
  std::vector<std::string> notes() const override { return options_.notes; }

  DeviceMemory allocate(std::size_t bytes) override {
    const std::size_t reserved = std::max<std::size_t>(bytes, 1);
    take_memory(bytes);
    void* handed_out = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (handed_out == MAP_FAILED)
      throw_error(ErrorCode::kResourceExhausted, "no room for {} bytes", bytes);
    auto* const data = static_cast<std::byte*>(handed_out);
    Block block{bytes, aligned(bytes)};
    std::memset(block.real.get(), 0xa5, bytes);
    const std::lock_guard lock(mutex_);
    blocks_.emplace(data, std::move(block));
    return {*this, data, bytes};
  }
  DeviceMemory allocate_staging(std::size_t bytes) override {
    std::byte* const data = aligned(bytes).release();
    std::memset(data, 0x5a, bytes);
    return {*this, data, bytes};
  }
  std::unique_ptr<Stream> create_stream() override;

  /// Holds back all streams' tasks until go_on().
  void hold() { set_held(true); }
  void go_on() { set_held(false); }

  /// Counts over all streams.
  struct Recordings {
    std::size_t made = 0, alive = 0, replays = 0;
    friend bool operator==(const Recordings&, const Recordings&) = default;
  };
  Recordings recordings() {
    const std::lock_guard lock(mutex_);
    return recordings_;
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  using Real = std::unique_ptr<std::byte, Free>;
  struct Block {
    std::size_t size = 0;
    Real real;
  };
  class DetachedStream;
  class DetachedEvent;

  static Real aligned(std::size_t bytes) {
    return Real(static_cast<std::byte*>(
        std::aligned_alloc(64, (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64)));
  }

  void take_memory(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (options_.memory_bytes > 0 && used_ + bytes > options_.memory_bytes) {
      throw_error(ErrorCode::kResourceExhausted,
                  "the device has no {} of memory left: {} in total, {} used", format_bytes(bytes),
                  format_bytes(options_.memory_bytes), format_bytes(used_));
    }
    used_ += bytes;
  }
  void release(std::byte* data, std::size_t size) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(data);
    if (block == blocks_.end()) {
      std::free(data);
      return;
    }
    used_ -= block->second.size;
    blocks_.erase(block);
    munmap(data, std::max<std::size_t>(size, 1));
  }

  /// Returns the real memory of a device address, or null if it is not this device's.
  std::byte* find(const void* address, std::size_t size) {
    auto* const data = static_cast<std::byte*>(const_cast<void*>(address));
    const std::lock_guard lock(mutex_);
    auto block = blocks_.upper_bound(data);
    if (block == blocks_.begin()) return nullptr;
    --block;
    const std::size_t offset = data - block->first;
    if (offset >= std::max<std::size_t>(block->second.size, 1)) return nullptr;
    WEFT_CHECK(offset + size <= block->second.size, "{} bytes at {} of a block of {}", size, offset,
               block->second.size);
    return block->second.real.get() + offset;
  }

  void set_held(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    went_on_.notify_all();
  }
  void await_go_on() {
    std::unique_lock lock(mutex_);
    went_on_.wait(lock, [&] { return !held_; });
  }

  const DetachedOptions options_;
  std::mutex mutex_;
  std::condition_variable went_on_;
  bool held_ = false;                   // guarded by mutex_
  std::map<std::byte*, Block> blocks_;  // guarded by mutex_
  std::size_t used_ = 0;                // bytes of blocks_; guarded by mutex_
  std::uint64_t streams_ = 0;           // guarded by mutex_
  Recordings recordings_;               // guarded by mutex_
};

class DetachedDevice::DetachedEvent final : public Event {
 public:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;             // guarded by mutex
    std::optional<Error> failure;  // guarded by mutex

    void set(const std::optional<Error>& why) {
      const std::lock_guard lock(mutex);
      done = true;
      failure = why;
      changed.notify_all();
    }
    std::optional<Error> await() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return done; });
      return failure;
    }
  };

  bool done() const override {
    const std::lock_guard lock(state->mutex);
    return state->done;
  }
  void synchronize() const override {
    if (const auto failure = state->await()) throw *failure;
  }

  // shared with the streams that set it and wait for it
  std::shared_ptr<State> state = std::make_shared<State>();
};

/// Stream of a DetachedDevice. After a failure it runs no more tasks, like a GPU context. Its
/// events then complete at once with the error.
class DetachedDevice::DetachedStream final : public Stream, public ThreadStream {
 public:
  DetachedStream(DetachedDevice& device, std::uint64_t seed)
      : device_(device),
        kernels_(detect_instruction_set()),
        random_(seed),
        shuffled_(seed != 0),
        thread_([this] { work(); }) {}
  ~DetachedStream() override {
    WEFT_CHECK(recordings_ == 0, "{} recordings outlive their stream", recordings_);
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_one();
    }
    thread_.join();
  }

  void run(const Op& op, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           std::span<const OutputMode> modes) override {
    queue([this, op, in = std::vector(inputs.begin(), inputs.end()),
           out = std::vector(outputs.begin(), outputs.end()),
           how = std::vector(modes.begin(), modes.end())]() mutable {
      for (ConstTensorRef& tensor : in) tensor.data = own(tensor.data, tensor.type.bytes());
      for (TensorRef& tensor : out) tensor.data = own(tensor.data, tensor.type.bytes());
      kernels_.run(op, in, out, how);
    });
  }
  void add(std::span<const float> from, std::span<float> to) override {
    queue([this, from, to] { kernels_.add(own(from), own(to)); });
  }
  void copy(std::span<const std::byte> from, std::span<std::byte> to) override {
    WEFT_CHECK(from.size() == to.size());
    queue([this, from, to] {
      const std::byte* source = device_.find(from.data(), from.size());
      std::byte* destination = device_.find(to.data(), to.size());
      std::memmove(destination == nullptr ? to.data() : destination,
                   source == nullptr ? from.data() : source, from.size());
    });
  }
  void fill_zero(std::span<std::byte> memory) override {
    queue([this, memory] { std::memset(own(memory.data(), memory.size()), 0, memory.size()); });
  }
  void adamw(const AdamW& step, std::span<const AdamWParameter> parameters) override {
    queue([this, step, list = std::vector(parameters.begin(), parameters.end())]() mutable {
      for (AdamWParameter& parameter : list) {
        parameter.gradient = own(parameter.gradient);
        parameter.value = own(parameter.value);
        parameter.first_moment = own(parameter.first_moment);
        parameter.second_moment = own(parameter.second_moment);
        if (parameter.working.data != nullptr) {
          parameter.working.data = own(parameter.working.data, parameter.working.type.bytes());
        }
        kernels_.adamw(step, parameter);
      }
    });
  }
  void sums_of_squares(std::span<const std::span<const float>> tensors,
                       std::span<double> results) override {
    WEFT_CHECK(tensors.size() == results.size());
    queue([this, list = std::vector(tensors.begin(), tensors.end()), results] {
      WEFT_CHECK(results.empty() || device_.find(results.data(), results.size_bytes()) == nullptr,
                 "results are the host's");
      for (std::size_t i = 0; i < list.size(); ++i)
        results[i] = kernels_.sum_of_squares(own(list[i]));
    });
  }

  std::unique_ptr<Event> record() override {
    WEFT_CHECK(tape_ == nullptr, "an event in recorded work");
    auto event = std::make_unique<DetachedEvent>();
    queue([this, state = event->state] { state->set(failure_); }, true);
    return event;
  }
  void wait(const Event& event) override {
    WEFT_CHECK(tape_ == nullptr, "a wait in recorded work");
    queue([state = dynamic_cast<const DetachedEvent&>(event).state] {
      if (const auto failure = state->await()) throw *failure;
    });
  }
  void synchronize() override { record()->synchronize(); }

  void perform(std::function<void()> work) override { queue(std::move(work)); }
  std::byte* real(const std::byte* address, std::size_t size) override {
    return own(address, size);
  }

  std::unique_ptr<Recording> record_work(const std::function<void()>& work) override {
    auto tape = std::make_unique<Tape>(*this);
    tape_ = tape.get();
    try {
      work();
    } catch (...) {
      tape_ = nullptr;
      throw;
    }
    tape_ = nullptr;
    queue_tape(*tape);
    const std::lock_guard lock(device_.mutex_);
    ++device_.recordings_.made;
    return tape;
  }
  void replay(const Recording& recording) override {
    queue_tape(dynamic_cast<const Tape&>(recording));
    const std::lock_guard lock(device_.mutex_);
    ++device_.recordings_.replays;
  }

 private:
  class Tape final : public Recording {
   public:
    explicit Tape(DetachedStream& of) : stream_(of) {
      ++stream_.recordings_;
      const std::lock_guard lock(stream_.device_.mutex_);
      ++stream_.device_.recordings_.alive;
    }
    ~Tape() override {
      WEFT_CHECK(*queued == 0, "recorded work ends while it is queued {} times", queued->load());
      --stream_.recordings_;
      const std::lock_guard lock(stream_.device_.mutex_);
      --stream_.device_.recordings_.alive;
    }
    Tape(const Tape&) = delete;
    Tape& operator=(const Tape&) = delete;

    std::vector<std::function<void()>> tasks;
    // shared with queued work
    const std::shared_ptr<std::atomic<int>> queued = std::make_shared<std::atomic<int>>(0);

   private:
    DetachedStream& stream_;
  };
  void queue_tape(const Tape& tape) {
    ++*tape.queued;
    for (const std::function<void()>& task : tape.tasks) queue(task);
    queue([queued = tape.queued] { --*queued; }, true);
  }
  struct Task {
    std::function<void()> run;
    bool always = false;  ///< True if the task also runs after a failure.
  };

  void queue(std::function<void()> task, bool always = false) {
    if (tape_ != nullptr) {
      tape_->tasks.push_back(std::move(task));
      return;
    }
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(task), always});
    changed_.notify_one();
  }
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      device_.await_go_on();
      if (shuffled_ && random_() % 8 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
      if (failure_ && !task.always) continue;
      try {
        task.run();
      } catch (...) {
        failure_ = current_error();
      }
    }
  }
  /// Returns the real memory of an address. Throws if it is not the device's memory.
  std::byte* own(const std::byte* address, std::size_t size) {
    std::byte* const real = device_.find(address, size);
    if (real == nullptr && size > 0)
      throw_error(ErrorCode::kInvalidArgument, "a tensor is not in the device's memory");
    return real;
  }
  template <typename T>
  std::span<T> own(std::span<T> values) {
    return {reinterpret_cast<T*>(
                own(reinterpret_cast<const std::byte*>(values.data()), values.size_bytes())),
            values.size()};
  }

  DetachedDevice& device_;
  CpuKernels kernels_;            // stream's thread only
  std::mt19937_64 random_;        // stream's thread only
  std::optional<Error> failure_;  // stream's thread only
  Tape* tape_ = nullptr;          ///< Recording in progress; caller's thread only.
  int recordings_ = 0;            // caller's thread only
  const bool shuffled_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // guarded by mutex_
  bool ending_ = false;     // guarded by mutex_
  std::thread thread_;
};

inline std::unique_ptr<Stream> DetachedDevice::create_stream() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t seed =
      options_.shuffle_seed == 0 ? 0 : options_.shuffle_seed * 1000 + ++streams_;
  return std::make_unique<DetachedStream>(*this, seed);
}

}  // namespace weft::test
