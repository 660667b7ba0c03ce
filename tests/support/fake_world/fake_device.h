#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "tests/support/fake_world/fake_world.h"
#include "tests/support/thread_stream.h"

namespace weft::test {

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

}  // namespace weft::test
