#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "core/base/philox.h"
#include "transfer/wire/wire_event.h"

namespace weft::transfer {

/// Disturbances that a LoopbackHub simulates.
struct LoopbackOptions {
  /// Largest payload that travels with its header, in bytes.
  std::size_t eager_bytes = 4096;
  /// Seed of a random order of events, each of which is delivered after up to `max_delay`
  /// progress() calls. Empty: in order, at once.
  std::optional<std::uint64_t> shuffle_seed;
  std::uint32_t max_delay = 8;
  /// Index of the message with a payload in which one bit is flipped in transit.
  std::optional<std::uint64_t> corrupt_payload = {};
  /// Simulated hosts: path_to() reports TCP or shared memory as if the devices were on these hosts.
  /// Empty: loopback.
  std::optional<Topology> hosts = {};
};

/// Connects the devices of one process, for tests and for runs in a single process. Any thread; one
/// mutex guards everything.
///
/// Wires must not outlive the hub. A wire's progress() delivers only its own events, so a test that
/// owns all wires in one thread controls every step.
class LoopbackHub final {
 public:
  explicit LoopbackHub(const LoopbackOptions& options = {});
  ~LoopbackHub();
  LoopbackHub(const LoopbackHub&) = delete;
  LoopbackHub& operator=(const LoopbackHub&) = delete;

  /// Returns the wire of `device`. Call it once per device.
  std::unique_ptr<Wire> attach(DeviceId device);

  /// Simulates a kill of the process of `device`: its peers see it as lost. Its own operations in
  /// flight end too, so that its owner can be destroyed. Nothing that it does reaches other
  /// devices.
  void kill(DeviceId device);

  /// Returns the payload bytes buffered between `from` and `to`, which the back-pressure contract
  /// bounds.
  std::size_t buffered_bytes(DeviceId from, DeviceId to) const;

 private:
  friend class LoopbackWire;
  struct InFlight {
    DeviceId from, to;
    std::vector<std::byte> header;
    std::vector<std::byte> eager;                 // payload, if it travelled with the header
    std::span<const std::byte> rendezvous_bytes;  // payload, if it did not
    std::size_t bytes = 0;
    Token token = 0;
    bool is_eager = false;
    bool damaged = false;
  };
  struct Arrived {
    MessageId id;
  };
  struct HubEvent {
    std::variant<Arrived, SendFinished, ReceiveFinished, PeerLost> what;
    std::uint32_t delay = 0;
  };
  struct HubEndpoint {
    std::set<DeviceId> connected;
    std::deque<HubEvent> inbox;
    std::condition_variable changed;
    bool woken = false;
    bool alive = true;
  };

  void post(DeviceId to, decltype(HubEvent::what) what);
  /// Ends all operations in flight between two stations. `told` sees `error`; the sends of
  /// `dropper` end with kCancelled.
  void cut(DeviceId dropper, DeviceId told, const Error& error);
  void finish_send(const InFlight& message, Outcome<void> outcome);

  const LoopbackOptions options_;
  mutable std::mutex mutex_;
  std::map<DeviceId, std::unique_ptr<HubEndpoint>> stations_;
  std::map<MessageId, InFlight> messages_;
  std::map<std::pair<DeviceId, DeviceId>, std::size_t> buffered_;
  std::uint64_t next_message_ = 1;
  std::uint64_t payloads_ = 0;
  PhiloxStream random_;
};

}  // namespace weft::transfer
