#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "tests/simulation/cluster_world.h"
#include "transfer/wire/wire_event.h"

namespace weft::simulation {

/// Data plane of a simulated world: the wires of its processes. A message has the latency of its
/// hosts' path and waits while that is cut. A payload stays at its sender until it is received.
class DataWires final {
 public:
  explicit DataWires(ClusterWorld& world) : world_(world) {}

  std::unique_ptr<transfer::Wire> make_wire(transfer::DeviceId self);
  /// Breaks the connections of a process that has ended.
  void process_ended(ProcessNumber process);

 private:
  friend class DataWire;
  struct Arrived {
    transfer::MessageId id;
  };
  using Event =
      std::variant<Arrived, transfer::SendFinished, transfer::ReceiveFinished, transfer::PeerLost>;
  struct Station {
    ProcessNumber process = 0;
    int host = 0;
    std::map<transfer::DeviceId, std::uint64_t> connections{};  // number, by peer
    std::deque<Event> inbox{};
    bool woken = false;
    bool open = true;
  };
  struct InFlight {
    transfer::DeviceId from, to;
    std::vector<std::byte> header;
    std::span<const std::byte> payload;
    transfer::Token token = 0;
    bool waits_for_connection = false;
    struct Receiver {
      std::span<std::byte> buffer;
      transfer::Token token = 0;
    };
    std::optional<Receiver> receiver{};
  };

  void connect(transfer::DeviceId self, transfer::DeviceId peer);
  void send(InFlight message);
  void receive(transfer::DeviceId self, transfer::MessageId id, InFlight::Receiver receiver);
  void release(transfer::MessageId id);
  /// Breaks the connection between two devices. The sends of `dropper` end with kCancelled.
  void cut(transfer::DeviceId dropper, transfer::DeviceId told, const Error& error);
  void close(transfer::DeviceId device);

  void arrive(transfer::MessageId id);
  void post(transfer::DeviceId to, Event event);
  /// Runs `then` after the latency of the path, and not before it is whole.
  void travel(transfer::DeviceId from, transfer::DeviceId to, std::function<void()> then);

  ClusterWorld& world_;
  std::map<transfer::DeviceId, Station> stations_;
  std::map<transfer::MessageId, InFlight> messages_;
  std::uint64_t last_message_ = 0;
  std::uint64_t last_connection_ = 0;
};

}  // namespace weft::simulation
