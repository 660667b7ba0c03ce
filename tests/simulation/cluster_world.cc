#include "tests/simulation/cluster_world.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/base/check.h"
#include "tests/simulation/data_wires.h"
#include "tests/simulation/task_queue.h"
#include "tests/simulation/wire.h"

namespace weft::simulation {

using actors::Address;
using actors::ByteStream;
using actors::ExitReport;

namespace {

constexpr auto kStoppedFor = std::chrono::seconds(10);

class SimulatedAlarm final : public actors::IoLoop::Alarm {
 public:
  SimulatedAlarm(ClusterWorld& world, std::shared_ptr<TaskQueue> queue)
      : world_(world), queue_(std::move(queue)) {}
  ~SimulatedAlarm() override { cancel(); }
  void start(TimePoint at, std::function<void()> then) override {
    cancel();
    event_ = world_.at(world_.when(queue_->process(), at),
                       [queue = queue_, then = std::move(then)] { queue->add(then); });
  }
  void cancel() override { world_.cancel(std::exchange(event_, 0)); }

 private:
  ClusterWorld& world_;
  const std::shared_ptr<TaskQueue> queue_;
  std::uint64_t event_ = 0;
};

class SimulatedAcceptor final : public actors::IoLoop::StreamAcceptor {
 public:
  using Then = std::function<void(Outcome<std::unique_ptr<ByteStream>>)>;
  SimulatedAcceptor(ClusterWorld& world, std::shared_ptr<TaskQueue> queue, const Address& address)
      : world_(world), queue_(std::move(queue)), waiting_(std::make_shared<Waiting>()) {
    const auto opened = world_.open_port(
        address, {queue_->process(), queue_,
                  [waiting = waiting_, loop = queue_](std::unique_ptr<ByteStream> stream) {
                    waiting->streams.push_back(std::move(stream));
                    serve(waiting, loop);
                  }});
    if (!opened) throw Error(ErrorCode::kUnavailable, "Address already in use");
    address_ = *opened;
  }
  ~SimulatedAcceptor() override { close(); }
  Address address() const override { return address_; }
  void accept(Then then) override {
    waiting_->then = std::move(then);
    serve(waiting_, queue_);
  }
  void close() override {
    if (std::exchange(closed_, true)) return;
    world_.close_port(address_);
    waiting_->then = nullptr;
    waiting_->streams.clear();
  }

 private:
  struct Waiting {
    std::deque<std::unique_ptr<ByteStream>> streams;
    Then then;
  };
  static void serve(const std::shared_ptr<Waiting>& waiting,
                    const std::shared_ptr<TaskQueue>& queue) {
    if (!waiting->then || waiting->streams.empty()) return;
    queue->add([waiting] {
      if (!waiting->then || waiting->streams.empty()) return;
      auto stream = std::move(waiting->streams.front());
      waiting->streams.pop_front();
      std::exchange(waiting->then, nullptr)(std::move(stream));
    });
  }

  ClusterWorld& world_;
  const std::shared_ptr<TaskQueue> queue_;
  const std::shared_ptr<Waiting> waiting_;  // shared with connections being opened
  Address address_;
  bool closed_ = false;
};

class SimulatedConnector final : public actors::IoLoop::StreamConnector {
 public:
  using Then = std::function<void(Outcome<std::unique_ptr<ByteStream>>)>;
  SimulatedConnector(ClusterWorld& world, std::shared_ptr<TaskQueue> queue)
      : world_(world), queue_(std::move(queue)) {}
  ~SimulatedConnector() override { cancel(); }
  void connect(const Address& address, Then then) override {
    cancel();
    attempt_ = std::make_shared<Attempt>(Attempt{std::move(then)});
    try_now(world_, queue_, attempt_, address, std::chrono::seconds(1));
  }
  void cancel() override {
    if (attempt_) attempt_->then = nullptr;
    attempt_ = nullptr;
  }

 private:
  struct Attempt {
    Then then;
  };
  static void try_now(ClusterWorld& world, const std::shared_ptr<TaskQueue>& queue,
                      const std::shared_ptr<Attempt>& attempt, const Address& address,
                      Nanoseconds again_after) {
    const auto end = [queue, attempt](const Error& error) {
      queue->add([attempt, error] {
        if (attempt->then) std::exchange(attempt->then, nullptr)(error);
      });
    };
    const auto there = ClusterWorld::host_at(address.host);
    if (!there) return end(Error(ErrorCode::kNotFound, "Host not found"));
    const int here = world.host_of(queue->process());
    world.after(world.latency(here, *there), [&world, queue, attempt, address, again_after, end,
                                              here, there = *there] {
      if (!attempt->then || !world.alive(queue->process())) return;
      if (world.is_cut(here, there) || world.is_cut(there, here)) {
        world.after(again_after, [&world, queue, attempt, address, again_after] {
          if (attempt->then && world.alive(queue->process()))
            try_now(world, queue, attempt, address, again_after * 2);
        });
        return;
      }
      const ClusterWorld::Port* port = world.find_port(address);
      if (port == nullptr) return end(Error(ErrorCode::kUnavailable, "Connection refused"));
      const auto own = world.open_port({ClusterWorld::address_of(here), 0}, {});
      world.close_port(*own);
      // The accepting side runs in the loop of its port.
      const auto wire =
          std::make_shared<Wire>(world, Wire::Side{queue->process(), here, *own, queue},
                                 Wire::Side{port->process, there, address, port->queue});
      world.add_wire(wire);
      port->connected(std::make_unique<WireStream>(wire, 1));
      world.after(world.latency(there, here), [queue, attempt, wire] {
        auto stream =
            std::make_shared<std::unique_ptr<ByteStream>>(std::make_unique<WireStream>(wire, 0));
        queue->add([attempt, stream] {
          if (attempt->then) std::exchange(attempt->then, nullptr)(std::move(*stream));
        });
      });
    });
  }

  ClusterWorld& world_;
  const std::shared_ptr<TaskQueue> queue_;
  std::shared_ptr<Attempt> attempt_;  // shared with scheduled events
};

class SimulatedLoop final : public actors::IoLoop {
 public:
  SimulatedLoop(ClusterWorld& world, const std::string& thread_name)
      : world_(world), queue_(TaskQueue::start(world, thread_name)) {}
  ~SimulatedLoop() override { stop(); }
  void post(std::function<void()> callback) override { queue_->add(std::move(callback)); }
  bool in_loop() const override { return queue_->in_thread(); }
  void stop() override { queue_->stop(); }
  std::unique_ptr<Alarm> make_alarm() override {
    return std::make_unique<SimulatedAlarm>(world_, queue_);
  }
  std::unique_ptr<StreamAcceptor> listen(const Address& address, OnLoopback) override {
    return std::make_unique<SimulatedAcceptor>(world_, queue_, address);
  }
  std::unique_ptr<StreamConnector> make_connector(OnLoopback) override {
    return std::make_unique<SimulatedConnector>(world_, queue_);
  }

 private:
  ClusterWorld& world_;
  const std::shared_ptr<TaskQueue> queue_;
};

class SimulatedLauncher final : public actors::ProcessLauncher {
 public:
  explicit SimulatedLauncher(ClusterWorld& world)
      : world_(world), queue_(TaskQueue::start(world, "launcher")) {}
  ~SimulatedLauncher() override {
    stop_all(Nanoseconds::zero());
    queue_->stop();
  }
  pid_t launch(const actors::ProcessSpec& spec, actors::ProcessEvents events) override {
    // Time of fork and exec.
    world_.wait(this, world_.now() + world_.random_time(std::chrono::milliseconds(1),
                                                        std::chrono::milliseconds(10)));
    const ProcessNumber child =
        world_.run(spec.label, world_.host_of(queue_->process()), spec.command, spec.secret);
    children_.push_back(child);
    world_.adopt(child, {queue_, std::move(events), spec.log_file.string()});
    return child;
  }
  void signal(pid_t pid, int signal) override {
    if (!world_.is_child(pid)) return;
    if (signal == SIGKILL) return world_.stop_child(pid, Nanoseconds::zero());
    world_.after(Nanoseconds::zero(), [&world = world_, pid, signal] {
      world.signal(pid, signal, ClusterWorld::Sender::kParent);
    });
  }
  void stop(pid_t pid, Nanoseconds grace) override { world_.stop_child(pid, grace); }
  void stop_all(Nanoseconds grace) override {
    const std::vector<ProcessNumber> children = children_;  // launch() adds others
    for (const ProcessNumber child : children) world_.stop_child(child, grace);
    const TimePoint limit = world_.now() + grace + std::chrono::seconds(10);
    for (const ProcessNumber child : children)
      while (world_.is_child(child) && world_.now() < limit)
        world_.wait(this, world_.now() + std::chrono::milliseconds(1));
  }
  void signal_all(int number) override {
    const std::vector<ProcessNumber> children = children_;  // launch() adds others
    for (const ProcessNumber child : children) signal(child, number);
  }

 private:
  ClusterWorld& world_;
  const std::shared_ptr<TaskQueue> queue_;
  std::vector<ProcessNumber> children_;
};

}  // namespace

ClusterWorld::ClusterWorld(std::uint64_t seed, Main main)
    : World(seed), main_(std::move(main)), data_wires_(std::make_unique<DataWires>(*this)) {}

ClusterWorld::~ClusterWorld() = default;

std::string ClusterWorld::address_of(int host) { return fmt::format("10.0.0.{}", host + 1); }

std::optional<int> ClusterWorld::host_at(const std::string& address) {
  if (!address.starts_with("10.0.0.")) return std::nullopt;
  return std::stoi(address.substr(7)) - 1;
}

ProcessNumber ClusterWorld::run(const std::string& label, int host,
                                std::vector<std::string> arguments, const Secret& secret) {
  const auto place = std::find(arguments.begin(), arguments.end(), "--token-fd");
  if (place != arguments.end() && place + 1 != arguments.end()) {
    int ends[2] = {-1, -1};
    WEFT_CHECK(::pipe(ends) == 0, "no pipe");
    WEFT_CHECK(::write(ends[1], secret.bytes().data(), Secret::kBytes) == Secret::kBytes, "pipe");
    ::close(ends[1]);
    *(place + 1) = std::to_string(ends[0]);
  }
  return start_process(label, host, current_process(),
                       [this, arguments = std::move(arguments)] { return main_(arguments); });
}

void ClusterWorld::cut(int from, int to) {
  trace(fmt::format("host {} does not reach host {}", from, to));
  cuts_.insert({from, to});
}

void ClusterWorld::lose_power(int host, const std::string& files, Nanoseconds lasts) {
  trace(fmt::format("host {} loses power for {:.1f} s", host, in_seconds(lasts)));
  const std::uint64_t turn = ++last_loss_;
  dark_[host] = turn;
  after(lasts, [this, host, turn] {
    const auto found = dark_.find(host);
    if (found == dark_.end() || found->second != turn) return;
    trace(fmt::format("host {} has power again", host));
    dark_.erase(found);
  });
  disk_.lose_power(files);
  for (const ProcessNumber process : processes())
    if (alive(process) && host_of(process) == host) kill(process, "is without power");
}

void ClusterWorld::mend(int from, int to) {
  trace(fmt::format("host {} reaches host {} again", from, to));
  if (cuts_.erase({from, to}) > 0) mended_[{from, to}] = time();
}

bool ClusterWorld::was_cut(int a, int b, Nanoseconds past) const {
  return std::ranges::any_of(std::array{std::pair(a, b), std::pair(b, a)}, [&](const auto& path) {
    const auto mended = mended_.find(path);
    return is_cut(path.first, path.second) ||
           (mended != mended_.end() && time() - mended->second < past);
  });
}

Nanoseconds ClusterWorld::latency(int from, int to) {
  return from == to ? random_time(std::chrono::microseconds(5), std::chrono::microseconds(50))
                    : random_time(std::chrono::microseconds(50), std::chrono::microseconds(500));
}

std::unique_ptr<actors::IoLoop> ClusterWorld::make_loop(const std::string& thread_name) {
  return std::make_unique<SimulatedLoop>(*this, thread_name);
}

std::string ClusterWorld::own_host() { return address_of(host_of(current_process())); }

std::unique_ptr<transfer::Wire> ClusterWorld::make_wire(transfer::DeviceId self) {
  return data_wires_->make_wire(self);
}

std::unique_ptr<actors::ProcessLauncher> ClusterWorld::make_launcher() {
  return std::make_unique<SimulatedLauncher>(*this);
}

std::uint64_t ClusterWorld::watch_signals(
    std::function<void(const actors::ReceivedSignal&)> on_signal) {
  const std::uint64_t watch = ++last_watch_;
  watches_[watch] = {current_process(), TaskQueue::start(*this, "signals"), std::move(on_signal)};
  return watch;
}

void ClusterWorld::unwatch_signals(std::uint64_t watch) {
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  const std::shared_ptr<TaskQueue> queue = found->second.queue;
  watches_.erase(found);
  queue->stop();
}

void ClusterWorld::signal(ProcessNumber process, int number, Sender sender) {
  if (!alive(process)) return;
  const actors::ReceivedSignal received{number, 1, sender == Sender::kParent};
  trace(fmt::format("{} gets {} (process {})", label_of(process), actors::signal_name(number),
                    process));
  bool watched = false;
  for (const auto& [id, watch] : watches_) {
    if (watch.process != process) continue;
    watched = true;
    watch.queue->add([on_signal = watch.on_signal, received] { on_signal(received); });
  }
  if (!watched && received.asks_to_end())
    kill(process, "died: " + actors::signal_name(number), number);
}

void ClusterWorld::kill_self(int signal) {
  after(Nanoseconds::zero(), [this, process = current_process(), signal] {
    kill(process, "died: " + actors::signal_name(signal), signal);
  });
  wait(this, TimePoint::max());  // this thread never continues
  std::abort();
}

std::optional<Address> ClusterWorld::open_port(Address address, Port port) {
  if (address.port == 0) address.port = next_port_++;
  if (address.host == "127.0.0.1" || address.host == "0.0.0.0") address.host = own_host();
  if (!ports_.emplace(address_text(address), std::move(port)).second) return std::nullopt;
  return address;
}

const ClusterWorld::Port* ClusterWorld::find_port(const Address& address) const {
  const auto found = ports_.find(address_text(address));
  return found == ports_.end() ? nullptr : &found->second;
}

void ClusterWorld::add_wire(const std::shared_ptr<Wire>& wire) {
  std::erase_if(wires_, [](const std::weak_ptr<Wire>& each) { return each.expired(); });
  wires_.push_back(wire);
}

void ClusterWorld::stop_child(ProcessNumber process, Nanoseconds grace) {
  if (!is_child(process)) return;
  if (children_live_) return tell_parent(process, 0, SIGKILL);
  if (grace <= Nanoseconds::zero()) {
    after(Nanoseconds::zero(), [this, process] { kill(process, "died: SIGKILL by its parent"); });
    return;
  }
  after(Nanoseconds::zero(), [this, process] { signal(process, SIGTERM, Sender::kParent); });
  after(grace, [this, process] { kill(process, "died: SIGKILL by its parent"); });
}

void ClusterWorld::child_stopped(ProcessNumber process, Nanoseconds silence) {
  const auto found = children_.find(process);
  if (found == children_.end() || !found->second.events.on_stopped) return;
  ExitReport evidence;
  evidence.has_parent_report = true;
  evidence.pid = process;
  evidence.silence_text =
      fmt::format("has been stopped (state T) for {:.1f} s", in_seconds(silence));
  evidence.log_file = found->second.log_file;
  found->second.launcher->add(
      [on_stopped = found->second.events.on_stopped, evidence] { on_stopped(evidence); });
}

void ClusterWorld::stop(ProcessNumber process) {
  if (!alive(process) || stopped(process)) return;
  World::stop(process);
  const TimePoint since = stopped_since_[process] = now();
  after(kStoppedFor, [this, process, since] {
    if (stopped(process) && stopped_since_[process] == since) child_stopped(process, kStoppedFor);
  });
}

void ClusterWorld::tell_parent(ProcessNumber process, int status, int signal) {
  if (const auto found = children_.find(process); found != children_.end()) {
    ExitReport evidence;
    evidence.has_parent_report = true;
    evidence.pid = process;
    evidence.status = status;
    evidence.signal = signal;
    evidence.rss_bytes = 8u << 20;
    evidence.log_file = found->second.log_file;
    const Nanoseconds told =
        random_time(std::chrono::microseconds(100), std::chrono::milliseconds(5));
    after(told, [child = found->second, evidence] {
      child.launcher->add([on_death = child.events.on_death, evidence] {
        if (on_death) on_death(evidence);
      });
    });
    after(told + random_time({}, std::chrono::milliseconds(20)), [this, process, evidence] {
      const auto reaped = children_.extract(process);
      if (!reaped) return;
      reaped.mapped().launcher->add([on_reaped = reaped.mapped().events.on_reaped, evidence] {
        if (on_reaped) on_reaped(evidence);
      });
    });
  }
}

void ClusterWorld::process_ended(ProcessNumber process, int status, int signal) {
  tell_parent(process, status, signal);
  disk_.process_ended(process);
  memory_.process_ended(process);
  data_wires_->process_ended(process);
  std::erase_if(ports_, [&](const auto& each) { return each.second.process == process; });
  std::erase_if(watches_, [&](const auto& each) { return each.second.process == process; });
  for (const auto& each : std::vector(wires_))
    if (const auto wire = each.lock()) wire->process_ended(process);
  // Kills the children, as the parent-death signal does.
  for (const ProcessNumber child : processes())
    if (parent_of(child) == process && is_child(child))
      after(random_time({}, std::chrono::milliseconds(1)),
            [this, child] { kill(child, "died: SIGKILL, its parent is gone"); });
}

}  // namespace weft::simulation
