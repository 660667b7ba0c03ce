#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/call/call_frame.h"
#include "core/base/platform.h"
#include "tests/simulation/fiber.h"

namespace weft::simulation {

using ProcessNumber = int;
using ThreadNumber = std::uint64_t;

/// Simulated operating systems of several hosts in one thread: processes, threads and time. A
/// single simulated thread runs at a time, until it waits. The seed alone determines the order of
/// threads and all durations; addresses and the real clock do not matter.
class World : public Platform {
 public:
  explicit World(std::uint64_t seed);
  ~World() override;

  // Functions to call outside of threads or from events.
  /// Starts a process with a first thread. The process ends when `main` returns.
  ProcessNumber start_process(const std::string& label, int host, ProcessNumber parent,
                              std::function<int()> main);
  /// Ends a process at once, as SIGKILL does. Does nothing if it has ended.
  void kill(ProcessNumber process, const std::string& why, int signal = 9);
  /// Stops and continues a process, as SIGSTOP and SIGCONT do.
  void stop(ProcessNumber process);
  void go_on(ProcessNumber process);
  bool alive(ProcessNumber process) const { return processes_.contains(process); }
  bool stopped(ProcessNumber process) const;
  /// Returns whether a process, which may have ended, was ever stopped.
  bool was_stopped(ProcessNumber process) const { return ever_stopped_.contains(process); }
  const std::string& label_of(ProcessNumber process) const;
  int host_of(ProcessNumber process) const;
  std::vector<ProcessNumber> processes() const;
  ProcessNumber parent_of(ProcessNumber process) const;
  /// Runs `then` at `time`, outside of all threads. Returns an event for cancel().
  std::uint64_t at(TimePoint time, std::function<void()> then);
  std::uint64_t after(Nanoseconds delay, std::function<void()> then) {
    return at(now_ + delay, std::move(then));
  }
  void cancel(std::uint64_t event) { events_.erase(event_times_.extract(event)); }
  /// Runs the world until `is_so` or until `time`. Returns is_so().
  bool run_until(TimePoint time, const std::function<bool()>& is_so);

  /// True time of the world, which no process can read.
  TimePoint time() const { return now_; }
  /// Sets the rate of a host's clock, and its lead over the world's at the start.
  void set_clock(int host, double rate, Nanoseconds ahead) { clocks_[host] = {rate, ahead}; }
  /// Returns the world's time at which a process's clock shows `shown`.
  TimePoint when(ProcessNumber process, TimePoint shown) const;

  /// Uniform in [least, most].
  std::int64_t random(std::int64_t least, std::int64_t most);
  Nanoseconds random_time(Nanoseconds least, Nanoseconds most) {
    return Nanoseconds(random(least.count(), most.count()));
  }
  bool chance(double probability);
  /// Records an event with its time and adds it to the digest.
  void trace(const std::string& line);
  void print_trace(bool print) { print_trace_ = print; }
  /// Replaces a text in the trace that differs between runs of a seed, such as a folder's name.
  void hide(std::string text) { hidden_ = std::move(text); }
  /// Injected bug: this fraction of all wake() calls does nothing.
  void lose_wakeups(double part) { lost_wakeups_ = part; }
  std::uint64_t digest() const { return digest_; }
  std::uint64_t switches() const { return switches_; }
  ProcessNumber current_process() const { return current_ ? current_->process : 0; }
  /// Called outside of threads when a process has ended, with its status or signal.
  std::function<void(ProcessNumber, const std::string& label, int status, int signal)>
      on_process_end;

  // Platform, called by threads.
  /// Returns the time of the calling thread's host clock; outside of threads, the world's time.
  TimePoint now() override;
  std::uint64_t start_thread(const std::string& name, std::function<void()> run) override;
  std::uint64_t current_thread() override { return current_ ? current_->number : 0; }
  void join_thread(std::uint64_t thread) override;
  bool wait(const void* on, TimePoint until) override;
  void wake(const void* on, bool all) override;
  void fill_with_random(std::span<std::byte> bytes) override;
  int process_id() override;
  [[noreturn]] void end_process(int status) override;
  void log(const std::string& line) override;

 protected:
  /// Called when a process ends. Closes its sockets and ends its children.
  virtual void process_ended(ProcessNumber process, int status, int signal) = 0;

 private:
  struct SimulatedThread {
    ThreadNumber number = 0;
    ProcessNumber process = 0;
    std::string name;
    std::function<void()> run;
    std::unique_ptr<Fiber> fiber;
    const void* waits_on = nullptr;
    std::uint64_t wait_number = 0;
    bool woken = false;
    bool on_actor_thread = false;
    actors::ActorId current_actor{};
    actors::CallFrame* blocking_call = nullptr;
  };
  struct Process {
    std::string label;
    int host = 0;
    ProcessNumber parent = 0;
    bool stopped = false;
    std::set<ThreadNumber> threads;
    std::vector<ThreadNumber> ready_when_continued;
  };

  ThreadNumber add_thread(ProcessNumber process, const std::string& name,
                          std::function<void()> run);
  void make_ready(SimulatedThread& thread);
  void step(ThreadNumber thread);
  void end(ProcessNumber process, int status, int signal, const std::string& why);

  std::mt19937_64 random_;
  TimePoint now_{};
  struct HostClock {
    double rate = 1;
    Nanoseconds ahead{};
  };
  std::map<int, HostClock> clocks_;  // by host; the default is the world's time
  std::uint64_t last_event_ = 0;
  std::map<std::pair<TimePoint, std::uint64_t>, std::function<void()>> events_;
  struct EventTimes {
    std::unordered_map<std::uint64_t, TimePoint> times;
    std::pair<TimePoint, std::uint64_t> extract(std::uint64_t event);
  } event_times_;
  ProcessNumber last_process_ = 5'000'000;  // larger than any process id of Linux
  ThreadNumber last_thread_ = 0;
  std::map<ProcessNumber, Process> processes_;
  std::set<ProcessNumber> ever_stopped_;
  std::map<ThreadNumber, std::unique_ptr<SimulatedThread>> threads_;
  std::vector<ThreadNumber> ready_;
  std::unordered_map<const void*, std::deque<ThreadNumber>> waiting_;
  // Threads of killed processes. Their stacks are kept, because no destructor may run.
  std::vector<std::unique_ptr<SimulatedThread>> abandoned_;
  SimulatedThread* current_ = nullptr;
  double lost_wakeups_ = 0;
  bool print_trace_ = false;
  std::string hidden_;
  std::uint64_t digest_ = 14695981039346656037ull;
  std::uint64_t switches_ = 0;
};

}  // namespace weft::simulation
