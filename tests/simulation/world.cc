#include "tests/simulation/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/base/check.h"

namespace weft::simulation {
namespace {

/// Range of the time that a thread runs before it waits.
constexpr auto kLeastStep = std::chrono::microseconds(1);
constexpr auto kLongestStep = std::chrono::microseconds(20);

}  // namespace

World::World(std::uint64_t seed) : random_(seed) { set_simulated(this); }

World::~World() { set_simulated(nullptr); }

std::int64_t World::random(std::int64_t least, std::int64_t most) {
  // std::uniform_int_distribution differs between libraries.
  const std::uint64_t range = static_cast<std::uint64_t>(most - least) + 1;
  return least + static_cast<std::int64_t>(range == 0 ? random_() : random_() % range);
}

bool World::chance(double probability) {
  return static_cast<double>(random(0, 999'999)) < probability * 1e6;
}

void World::fill_with_random(std::span<std::byte> bytes) {
  for (std::byte& each : bytes) each = static_cast<std::byte>(random(0, 255));
}

void World::trace(const std::string& line) {
  std::string whole = fmt::format("{:12.6f} {}\n", in_seconds(now_.time_since_epoch()), line);
  for (auto at = whole.find(hidden_); !hidden_.empty() && at != std::string::npos;
       at = whole.find(hidden_, at))
    whole.replace(at, hidden_.size(), "SCRATCH");
  for (const char each : whole)
    digest_ = (digest_ ^ static_cast<unsigned char>(each)) * 1099511628211ull;
  if (print_trace_) std::fputs(whole.c_str(), stdout);
}

void World::log(const std::string& line) {
  trace(fmt::format("{} | {}", current_ ? label_of(current_->process) : "", line));
}

std::pair<TimePoint, std::uint64_t> World::EventTimes::extract(std::uint64_t event) {
  const auto found = times.find(event);
  if (found == times.end()) return {TimePoint::max(), 0};
  const TimePoint time = found->second;
  times.erase(found);
  return {time, event};
}

std::uint64_t World::at(TimePoint time, std::function<void()> then) {
  const std::uint64_t event = ++last_event_;
  events_.emplace(std::pair(std::max(time, now_), event), std::move(then));
  event_times_.times.emplace(event, std::max(time, now_));
  return event;
}

ThreadNumber World::add_thread(ProcessNumber process, const std::string& name,
                               std::function<void()> run) {
  auto thread = std::make_unique<SimulatedThread>();
  const ThreadNumber number = ++last_thread_;
  thread->number = number;
  thread->process = process;
  thread->name = name;
  thread->run = std::move(run);
  thread->fiber = std::make_unique<Fiber>([raw = thread.get()] {
    raw->run();
    raw->run = nullptr;
  });
  processes_.at(process).threads.insert(number);
  SimulatedThread& added = *thread;
  threads_.emplace(number, std::move(thread));
  make_ready(added);
  return number;
}

void World::make_ready(SimulatedThread& thread) {
  Process& process = processes_.at(thread.process);
  if (process.stopped) process.ready_when_continued.push_back(thread.number);
  else ready_.push_back(thread.number);
}

ProcessNumber World::start_process(const std::string& label, int host, ProcessNumber parent,
                                   std::function<int()> main) {
  const ProcessNumber number = ++last_process_;
  processes_[number] = Process{label, host, parent, false, {}, {}};
  trace(fmt::format("{} starts on host {} (process {})", label, host, number));
  add_thread(number, "main", [this, main = std::move(main)] { end_process(main()); });
  return number;
}

std::uint64_t World::start_thread(const std::string& name, std::function<void()> run) {
  WEFT_CHECK(current_, "a thread starts outside of all processes");
  return add_thread(current_->process, name, std::move(run));
}

void World::join_thread(std::uint64_t thread) {
  while (true) {
    const auto found = threads_.find(thread);
    if (found == threads_.end()) return;
    wait(found->second->fiber.get(), TimePoint::max());
  }
}

TimePoint World::now() {
  if (current_ == nullptr) return now_;
  const auto clock = clocks_.find(host_of(current_->process));
  if (clock == clocks_.end()) return now_;
  const auto since = static_cast<double>(now_.time_since_epoch().count());
  return TimePoint(Nanoseconds(static_cast<std::int64_t>(since * clock->second.rate)) +
                   clock->second.ahead);
}

TimePoint World::when(ProcessNumber process, TimePoint shown) const {
  const auto found = processes_.find(process);
  if (found == processes_.end() || shown == TimePoint::max()) return shown;
  const auto clock = clocks_.find(found->second.host);
  if (clock == clocks_.end()) return shown;
  const auto since = static_cast<double>((shown.time_since_epoch() - clock->second.ahead).count());
  // Rounds up, so that a woken thread's clock has reached `shown`.
  return TimePoint(Nanoseconds(static_cast<std::int64_t>(since / clock->second.rate) + 1));
}

bool World::wait(const void* on, TimePoint until) {
  SimulatedThread& self = *current_;
  self.waits_on = on;
  self.woken = false;
  const std::uint64_t number = ++self.wait_number;
  waiting_[on].push_back(self.number);
  std::uint64_t alarm = 0;
  if (until != TimePoint::max())
    alarm = at(when(self.process, until), [this, thread = self.number, number] {
      const auto found = threads_.find(thread);
      if (found == threads_.end() || found->second->wait_number != number ||
          found->second->waits_on == nullptr)
        return;
      auto& queue = waiting_[found->second->waits_on];
      std::erase(queue, thread);
      if (queue.empty()) waiting_.erase(found->second->waits_on);
      found->second->waits_on = nullptr;
      make_ready(*found->second);
    });
  self.fiber->yield();
  if (alarm != 0) cancel(alarm);
  return self.woken;
}

void World::wake(const void* on, bool all) {
  const auto found = waiting_.find(on);
  if (found == waiting_.end() || (lost_wakeups_ > 0 && chance(lost_wakeups_))) return;
  do {
    SimulatedThread& thread = *threads_.at(found->second.front());
    found->second.pop_front();
    thread.waits_on = nullptr;
    thread.woken = true;
    make_ready(thread);
  } while (all && !found->second.empty());
  if (found->second.empty()) waiting_.erase(found);
}

int World::process_id() { return current_process(); }

void World::end_process(int status) {
  WEFT_CHECK(current_, "the end of no process");
  const ProcessNumber process = current_->process;
  after(Nanoseconds::zero(), [this, process, status] {
    end(process, status, 0, fmt::format("ended with status {}", status));
  });
  // This thread never continues.
  wait(this, TimePoint::max());
  std::abort();
}

void World::kill(ProcessNumber process, const std::string& why, int signal) {
  end(process, 0, signal, why);
}

void World::end(ProcessNumber number, int status, int signal, const std::string& why) {
  const auto found = processes_.find(number);
  if (found == processes_.end()) return;
  const Process process = std::move(found->second);
  trace(fmt::format("{} {} (process {})", process.label, why, number));
  process_ended(number, status, signal);
  for (const ThreadNumber thread : process.threads) {
    const auto dead = threads_.find(thread);
    if (dead == threads_.end()) continue;
    if (dead->second->waits_on != nullptr) {
      auto& queue = waiting_[dead->second->waits_on];
      std::erase(queue, thread);
      if (queue.empty()) waiting_.erase(dead->second->waits_on);
    }
    std::erase(ready_, thread);
    abandoned_.push_back(std::move(dead->second));
    threads_.erase(dead);
  }
  processes_.erase(number);
  if (on_process_end) on_process_end(number, process.label, status, signal);
}

void World::stop(ProcessNumber number) {
  const auto found = processes_.find(number);
  if (found == processes_.end() || std::exchange(found->second.stopped, true)) return;
  trace(fmt::format("{} is stopped (process {})", found->second.label, number));
  ever_stopped_.insert(number);
  for (const ThreadNumber thread : std::vector(ready_))
    if (threads_.at(thread)->process == number) {
      std::erase(ready_, thread);
      found->second.ready_when_continued.push_back(thread);
    }
}

void World::go_on(ProcessNumber number) {
  const auto found = processes_.find(number);
  if (found == processes_.end() || !std::exchange(found->second.stopped, false)) return;
  trace(fmt::format("{} goes on (process {})", found->second.label, number));
  for (const ThreadNumber thread : std::exchange(found->second.ready_when_continued, {}))
    ready_.push_back(thread);
}

bool World::stopped(ProcessNumber process) const {
  const auto found = processes_.find(process);
  return found != processes_.end() && found->second.stopped;
}

const std::string& World::label_of(ProcessNumber process) const {
  static const std::string nobody = "nobody";
  const auto found = processes_.find(process);
  return found == processes_.end() ? nobody : found->second.label;
}

int World::host_of(ProcessNumber process) const { return processes_.at(process).host; }

ProcessNumber World::parent_of(ProcessNumber process) const {
  const auto found = processes_.find(process);
  return found == processes_.end() ? 0 : found->second.parent;
}

std::vector<ProcessNumber> World::processes() const {
  std::vector<ProcessNumber> numbers;
  for (const auto& [number, process] : processes_) numbers.push_back(number);
  return numbers;
}

void World::step(ThreadNumber number) {
  SimulatedThread& thread = *threads_.at(number);
  ++switches_;
  current_ = &thread;
  actors::set_on_actor_thread(thread.on_actor_thread);
  actors::set_current_actor(thread.current_actor);
  actors::set_blocking_call(thread.blocking_call);
  thread.fiber->resume();
  thread.on_actor_thread = actors::on_actor_thread();
  thread.current_actor = actors::current_actor();
  thread.blocking_call = actors::blocking_call();
  current_ = nullptr;
  now_ += random_time(kLeastStep, kLongestStep);
  if (!thread.fiber->ended()) return;
  // The thread's last action may have ended its process.
  const auto found = threads_.find(number);
  if (found == threads_.end()) return;
  processes_.at(thread.process).threads.erase(number);
  const void* joined = thread.fiber.get();
  const auto ended = std::move(found->second);
  threads_.erase(found);
  wake(joined, true);
}

bool World::run_until(TimePoint time, const std::function<bool()>& is_so) {
  while (!is_so()) {
    if (!events_.empty() && events_.begin()->first.first <= now_) {
      const auto event = events_.extract(events_.begin());
      event_times_.times.erase(event.key().second);
      event.mapped()();
    } else if (!ready_.empty()) {
      const std::size_t which = random(0, std::ssize(ready_) - 1);
      const ThreadNumber thread = ready_[which];
      ready_.erase(ready_.begin() + which);
      step(thread);
    } else if (!events_.empty() && events_.begin()->first.first <= time) {
      now_ = events_.begin()->first.first;
    } else {
      now_ = std::max(now_, time);
      return is_so();
    }
    if (now_ > time) return is_so();
  }
  return true;
}

}  // namespace weft::simulation
