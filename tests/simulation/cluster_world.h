#pragma once

#include "actors/net/network.h"
#include "actors/supervision/process_platform.h"
#include "core/base/secret.h"
#include "mesh/objects/memory_platform.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/shared_memory.h"
#include "tests/simulation/world.h"
#include "transfer/wire/wire_network.h"

namespace weft::simulation {

class DataWires;
class TaskQueue;
class Wire;

/// World with networks between hosts, child processes, signals and shared memory. Each process runs
/// `main` with its arguments, as an executable does.
class ClusterWorld final : public World,
                           public actors::ControlNetwork,
                           public actors::ProcessPlatform,
                           public transfer::WireNetwork,
                           public mesh::MemoryPlatform {
 public:
  using Main = std::function<int(const std::vector<std::string>& arguments)>;
  ClusterWorld(std::uint64_t seed, Main main);
  ~ClusterWorld() override;

  /// Starts an executable. The first argument is its name. The process reads `secret` from the
  /// descriptor after "--token-fd".
  ProcessNumber run(const std::string& label, int host, std::vector<std::string> arguments,
                    const Secret& secret);
  static std::string address_of(int host);
  /// Stops a process, as SIGSTOP does. Notifies its parent after 10 s.
  void stop(ProcessNumber process);
  enum class Sender { kParent, kSomebodyElse };
  /// Sends a signal to the process's SignalHandler. Without a watch, a terminating signal ends the
  /// process.
  void signal(ProcessNumber process, int number, Sender sender);

  /// Cuts the path from one host to another. Data in flight waits for retransmission, as with TCP.
  void cut(int from, int to);
  void mend(int from, int to);
  /// Kills a host's processes and loses unsynced data of files whose path contains `files`. The
  /// host is back after `lasts`, without processes.
  void lose_power(int host, const std::string& files, Nanoseconds lasts);
  bool is_dark(int host) const { return dark_.contains(host); }
  Disk& disk() { return disk_; }
  const SharedMemory& memory() const { return memory_; }
  bool is_cut(int from, int to) const {
    return cuts_.contains({from, to}) || dark_.contains(from) || dark_.contains(to);
  }
  /// Returns whether a path between two hosts is cut, or was within the last `past`.
  bool was_cut(int a, int b, Nanoseconds past) const;
  /// Sets the probability that a segment must be retransmitted.
  void set_loss(double probability) { loss_ = probability; }

  /// Injected bug: stop_child() reports the child as exited but does not end it.
  void let_children_live() { children_live_ = true; }

  // Implements ControlNetwork and ProcessPlatform.
  std::unique_ptr<actors::IoLoop> make_loop(const std::string& thread_name) override;
  std::string own_host() override;
  bool lives(pid_t process) override { return alive(process); }
  std::unique_ptr<actors::ProcessLauncher> make_launcher() override;
  std::uint64_t watch_signals(
      std::function<void(const actors::ReceivedSignal&)> on_signal) override;
  void unwatch_signals(std::uint64_t watch) override;
  [[noreturn]] void kill_self(int signal) override;

  // Implements WireNetwork and MemoryPlatform.
  std::unique_ptr<transfer::Wire> make_wire(transfer::DeviceId self) override;
  std::uint64_t available() override { return kObjectMemory; }
  Allocation allocate(std::uint64_t bytes) override { return memory_.allocate(bytes); }
  void release(std::int32_t descriptor) override { memory_.release(descriptor); }
  const std::byte* map(std::int32_t descriptor) override { return memory_.map(descriptor); }
  void unmap(const std::byte* address) override { memory_.unmap(address); }

  // Interface for the simulated loops, wires and launchers.
  struct Port {
    ProcessNumber process = 0;
    std::shared_ptr<TaskQueue> queue;
    std::function<void(std::unique_ptr<actors::ByteStream>)> connected;
  };
  /// Opens a port and returns its address, or nullopt if the address is in use. Port 0 means the
  /// next free port.
  std::optional<actors::Address> open_port(actors::Address address, Port port);
  void close_port(const actors::Address& address) { ports_.erase(address_text(address)); }
  const Port* find_port(const actors::Address& address) const;
  void add_wire(const std::shared_ptr<Wire>& wire);
  Nanoseconds latency(int from, int to);
  bool loses() { return chance(loss_); }
  static std::optional<int> host_at(const std::string& address);

  struct Child {
    std::shared_ptr<TaskQueue> launcher;  // queue of the parent's launcher
    actors::ProcessEvents events;
    std::string log_file;
  };
  void adopt(ProcessNumber process, Child child) { children_[process] = std::move(child); }
  bool is_child(ProcessNumber process) const { return children_.contains(process); }
  void stop_child(ProcessNumber process, Nanoseconds grace);
  void child_stopped(ProcessNumber process, Nanoseconds silence);

 private:
  /// Memory of a host for objects. That of the real machine changes from run to run.
  static constexpr std::uint64_t kObjectMemory = std::uint64_t{4} << 30;
  void process_ended(ProcessNumber process, int status, int signal) override;
  void tell_parent(ProcessNumber process, int status, int signal);
  static std::string address_text(const actors::Address& address) {
    return actors::to_string(address);
  }

  const Main main_;
  Disk disk_{*this};
  SharedMemory memory_{*this};
  const std::unique_ptr<DataWires> data_wires_;
  std::map<int, std::uint64_t> dark_;  // hosts without power, with the number of the power loss
  std::uint64_t last_loss_ = 0;
  std::set<std::pair<int, int>> cuts_;
  std::map<std::pair<int, int>, TimePoint> mended_;  // last mend of each path
  double loss_ = 0.001;
  bool children_live_ = false;
  std::uint16_t next_port_ = 30000;
  std::map<std::string, Port> ports_;
  std::vector<std::weak_ptr<Wire>> wires_;
  std::map<ProcessNumber, Child> children_;
  std::map<ProcessNumber, TimePoint> stopped_since_;
  struct Watch {
    ProcessNumber process = 0;
    std::shared_ptr<TaskQueue> queue;
    std::function<void(const actors::ReceivedSignal&)> on_signal;
  };
  std::uint64_t last_watch_ = 0;
  std::map<std::uint64_t, Watch> watches_;
};

}  // namespace weft::simulation
