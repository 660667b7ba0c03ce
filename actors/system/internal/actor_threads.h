#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Threads of a process that its actors share, for their turns or for `blocking` handlers. They
/// start when they are needed.
///
/// If all threads are busy and none takes work for kStalledAfter, another one starts, up to
/// Options::most. Owned by the System. Any thread, except stop().
class ActorThreads final {
 public:
  /// Piece of work, such as some items of one actor's mailbox. Does not throw.
  class Work {
   public:
    virtual ~Work() = default;
    virtual void run() = 0;
  };
  /// Runs a function later, on another thread.
  using Schedule = std::function<void(Nanoseconds, std::function<void()>)>;
  struct Options {
    std::string name;     ///< Name of the threads.
    std::size_t at_once;  ///< Number of threads that start without a delay.
    std::size_t kept;     ///< Number of threads that stay when they are idle for long.
    std::size_t most;
    bool may_block = false;  ///< True if on_actor_thread() is false there.
    Nanoseconds idle_for = std::chrono::seconds(5);
  };
  static constexpr Nanoseconds kStalledAfter = std::chrono::milliseconds(100);

  ActorThreads(Options options, Schedule schedule)
      : options_(std::move(options)), schedule_(std::move(schedule)) {}
  ~ActorThreads() { stop(); }
  ActorThreads(const ActorThreads&) = delete;
  ActorThreads& operator=(const ActorThreads&) = delete;

  /// Queues work behind that of other actors. Does not block.
  void run(std::shared_ptr<Work> work);
  /// Finishes the queued work and joins the threads. Not from one of them.
  void stop();

  /// Returns the number of threads that have started and not ended.
  std::size_t size() const;

 private:
  // The lock is held during start_thread() and watch_stall().
  void start_thread();
  void serve(std::uint64_t number);
  /// Waits for work. Returns null if this thread has to end.
  std::shared_ptr<Work> next(std::uint64_t number);
  void watch_stall();
  void on_stall_check(std::uint64_t taken_before);

  const Options options_;
  const Schedule schedule_;

  mutable Mutex mutex_;  // guards the members below
  Condition changed_;
  std::deque<std::shared_ptr<Work>> queue_;  // shared with the actors
  std::map<std::uint64_t, Thread> threads_;
  std::vector<Thread> ended_;  // to be joined
  std::uint64_t last_number_ = 0;
  std::uint64_t taken_ = 0;  // pieces of work that threads have begun
  std::size_t idle_ = 0;
  bool watched_ = false;  // a check of a stall is scheduled
  bool stopping_ = false;
};

}  // namespace weft::actors
