#pragma once

#include <fmt/format.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "tests/support/fake_world/fake_group.h"

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
  /// Keeps the first error. `what` may be empty.
  void note_error(const std::string& what) {
    if (error_.empty()) error_ = what;
  }

  /// Queues a task on a stream of `device`. Blocks the stream until `attempt`, called under the
  /// lock, returns true.
  inline void perform(Stream& stream, std::uint32_t device, std::string what,
                      std::function<bool()> attempt);
  /// Returns a function that maps device addresses to real memory, for tasks of the stream.
  static inline std::function<std::byte*(const std::byte*, std::size_t)> memory_of(Stream& stream);

  const Options options_{};
  mutable std::recursive_mutex mutex_;
  std::condition_variable_any changed_;                // wakes tasks that wait for other members
  std::vector<std::shared_ptr<StreamState>> streams_;  // this and all below: guarded by mutex_
  std::map<std::string, std::shared_ptr<FakeGroup>> groups_;  // by id
  std::set<std::uint32_t> dead_;
  std::string error_;
  std::size_t created_ = 0;
  std::size_t ids_ = 0;
};

}  // namespace weft::test
