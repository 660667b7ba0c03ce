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

#include "core/base/platform.h"
#include "tests/simulation/fiber.h"

namespace weft::simulation {

using ProcessNumber = int;
using ThreadNumber = std::uint64_t;

/// The operating systems of a few hosts in one thread: processes, their threads, time. One thread
/// of all runs at a time, until it waits; which is next, and how long everything takes, follows
/// from the seed alone. Nothing here depends on addresses or on the real clock.
class World : public Platform {
 public:
  explicit World(std::uint64_t seed);
  ~World() override;

  // From outside of threads, or from events.
  /// Starts a process with a first thread; it ends when `main` returns.
  ProcessNumber start_process(const std::string& label, int host, ProcessNumber parent,
                              std::function<int()> main);
  /// As SIGKILL does: nothing of it runs any more. Nothing when it has ended.
  void kill(ProcessNumber process, const std::string& why, int signal = 9);
  /// As SIGSTOP and SIGCONT do.
  void stop(ProcessNumber process);
  void go_on(ProcessNumber process);
  bool alive(ProcessNumber process) const { return processes_.contains(process); }
  bool stopped(ProcessNumber process) const;
  const std::string& label_of(ProcessNumber process) const;
  int host_of(ProcessNumber process) const;
  std::vector<ProcessNumber> processes() const;
  ProcessNumber parent_of(ProcessNumber process) const;
  /// Runs `then` at a time, outside of all threads; the result cancels it.
  std::uint64_t at(TimePoint time, std::function<void()> then);
  std::uint64_t after(Nanoseconds delay, std::function<void()> then) {
    return at(now_ + delay, std::move(then));
  }
  void cancel(std::uint64_t event) { events_.erase(event_times_.extract(event)); }
  /// Lets the world go on until `is_so` or a time; whether it is so.
  bool run_until(TimePoint time, const std::function<bool()>& is_so);

  /// The world's own time, which no process knows.
  TimePoint time() const { return now_; }
  /// A host's clock goes so fast, and began so late or early.
  void set_clock(int host, double rate, Nanoseconds ahead) { clocks_[host] = {rate, ahead}; }
  /// When a process's clock will show that.
  TimePoint when(ProcessNumber process, TimePoint shown) const;

  /// Uniform in [least, most].
  std::int64_t random(std::int64_t least, std::int64_t most);
  Nanoseconds random_time(Nanoseconds least, Nanoseconds most) {
    return Nanoseconds(random(least.count(), most.count()));
  }
  bool chance(double probability);
  /// What happened, a line each, in order, with times; also counted into a digest.
  void trace(const std::string& line);
  void print_trace(bool print) { print_trace_ = print; }
  /// What differs between two runs of a seed, and is written in another way: a folder's name.
  void hide(std::string text) { hidden_ = std::move(text); }
  /// A mistake on purpose: this part of all wake() does nothing.
  void lose_wakeups(double part) { lost_wakeups_ = part; }
  std::uint64_t digest() const { return digest_; }
  std::uint64_t switches() const { return switches_; }
  ProcessNumber current_process() const { return current_ ? current_->process : 0; }
  /// When a process has ended, with its status or the signal; outside of threads.
  std::function<void(ProcessNumber, const std::string& label, int status, int signal)>
      on_process_end;

  // Platform: from threads.
  /// By the clock of the host that asks; outside of threads the world's.
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
  /// Its threads are gone, its sockets must close, its children end.
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
  std::map<int, HostClock> clocks_;  // by host; none: the world's
  std::uint64_t last_event_ = 0;
  std::map<std::pair<TimePoint, std::uint64_t>, std::function<void()>> events_;
  struct EventTimes {
    std::unordered_map<std::uint64_t, TimePoint> times;
    std::pair<TimePoint, std::uint64_t> extract(std::uint64_t event);
  } event_times_;
  ProcessNumber last_process_ = 5'000'000;  // no number that Linux gives
  ThreadNumber last_thread_ = 0;
  std::map<ProcessNumber, Process> processes_;
  std::map<ThreadNumber, std::unique_ptr<SimulatedThread>> threads_;
  std::vector<ThreadNumber> ready_;
  std::unordered_map<const void*, std::deque<ThreadNumber>> waiting_;
  // Of processes that were killed: their stacks are left as they are, as nothing of them may run.
  std::vector<std::unique_ptr<SimulatedThread>> abandoned_;
  SimulatedThread* current_ = nullptr;
  double lost_wakeups_ = 0;
  bool print_trace_ = false;
  std::string hidden_;
  std::uint64_t digest_ = 14695981039346656037ull;
  std::uint64_t switches_ = 0;
};

}  // namespace weft::simulation
