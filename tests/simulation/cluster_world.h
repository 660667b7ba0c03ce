#pragma once

#include "actors/net/network.h"
#include "actors/supervision/process_platform.h"
#include "core/base/secret.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/world.h"

namespace weft::simulation {

class TaskQueue;
class Wire;

/// A World with what Weft's processes need besides: a network between the hosts, children, signals.
/// Every process runs `main` with its arguments, as executables do.
class ClusterWorld final : public World, public actors::Network, public actors::ProcessPlatform {
 public:
  using Main = std::function<int(const std::vector<std::string>& arguments)>;
  ClusterWorld(std::uint64_t seed, Main main);
  ~ClusterWorld() override;

  /// Starts an executable with these arguments (the first one is its name) and reads `secret` from
  /// the descriptor after "--token-fd".
  ProcessNumber run(const std::string& label, int host, std::vector<std::string> arguments,
                    const Secret& secret);
  static std::string address_of(int host);
  /// As SIGSTOP does; its parent sees it when that has lasted.
  void stop(ProcessNumber process);
  enum class Sender { kParent, kSomebodyElse };
  /// A signal: to its SignalHandler; without one, it ends by those that ask for that.
  void signal(ProcessNumber process, int number, Sender sender);

  /// Nothing passes from one host to another any more; what is sent waits, as TCP's does.
  void cut(int from, int to);
  void mend(int from, int to);
  /// Its processes are gone without a word, and its disk has what was synced; it is back after a
  /// time, without them.
  void lose_power(int host, const std::string& files, Nanoseconds lasts);
  bool is_dark(int host) const { return dark_.contains(host); }
  Disk& disk() { return disk_; }
  bool is_cut(int from, int to) const {
    return cuts_.contains({from, to}) || dark_.contains(from) || dark_.contains(to);
  }
  /// Of a segment that has to be sent again.
  void set_loss(double probability) { loss_ = probability; }

  /// A mistake on purpose: who is to end by its parent's will does not, and counts as reaped.
  void let_children_live() { children_live_ = true; }

  // Network, ProcessPlatform.
  std::unique_ptr<actors::IoLoop> make_loop(const std::string& thread_name) override;
  std::string own_host() override;
  bool lives(pid_t process) override { return alive(process); }
  std::unique_ptr<actors::ProcessLauncher> make_launcher() override;
  std::uint64_t watch_signals(
      std::function<void(const actors::ReceivedSignal&)> on_signal) override;
  void unwatch_signals(std::uint64_t watch) override;
  [[noreturn]] void kill_self(int signal) override;

  // For what a world is made of.
  struct Port {
    ProcessNumber process = 0;
    std::shared_ptr<TaskQueue> queue;
    std::function<void(std::unique_ptr<actors::Stream>)> connected;
  };
  /// False: somebody listens there already. Port 0: the next one.
  std::optional<actors::Address> open_port(actors::Address address, Port port);
  void close_port(const actors::Address& address) { ports_.erase(address_text(address)); }
  const Port* find_port(const actors::Address& address) const;
  void add_wire(const std::shared_ptr<Wire>& wire);
  Nanoseconds latency(int from, int to);
  bool loses() { return chance(loss_); }
  static std::optional<int> host_at(const std::string& address);

  struct Child {
    std::shared_ptr<TaskQueue> launcher;  // of its parent
    actors::ProcessEvents events;
    std::string log_file;
  };
  void adopt(ProcessNumber process, Child child) { children_[process] = std::move(child); }
  bool is_child(ProcessNumber process) const { return children_.contains(process); }
  void stop_child(ProcessNumber process, Nanoseconds grace);
  void child_stopped(ProcessNumber process, Nanoseconds silence);

 private:
  void process_ended(ProcessNumber process, int status, int signal) override;
  void tell_parent(ProcessNumber process, int status, int signal);
  static std::string address_text(const actors::Address& address) {
    return actors::to_string(address);
  }

  const Main main_;
  Disk disk_{*this};
  std::map<int, std::uint64_t> dark_;  // hosts without power, by which loss of it
  std::uint64_t last_loss_ = 0;
  std::set<std::pair<int, int>> cuts_;
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
