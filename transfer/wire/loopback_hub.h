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

/// How unkind a LoopbackHub is.
struct LoopbackOptions {
  /// Payloads up to this size travel with their header.
  std::size_t eager_bytes = 4096;
  /// Deliver events in random order, and each one only after a random number of progress() calls.
  std::optional<std::uint64_t> shuffle_seed;
  std::uint32_t max_delay = 8;
  /// Flip a bit of the payload of the n-th message that has one, on its way.
  std::optional<std::uint64_t> damage = {};
  /// Say that the way to a device is tcp or shared memory, as if the devices lived on these hosts;
  /// empty: loopback.
  std::optional<Topology> hosts = {};
};

/// Joins the devices of one process, for tests and for runs in a single process. Any thread; one
/// mutex guards everything.
///
/// Its wires must not outlive it. A wire's progress() delivers only its own events, so a test that
/// owns all wires in one thread decides every step.
class LoopbackHub final {
 public:
  explicit LoopbackHub(const LoopbackOptions& options = {});
  ~LoopbackHub();
  LoopbackHub(const LoopbackHub&) = delete;
  LoopbackHub& operator=(const LoopbackHub&) = delete;

  /// The wire of `device`; one per device.
  std::unique_ptr<Wire> attach(DeviceId device);

  /// As if the process of `device` had been killed: its peers see it as lost. What it has under way
  /// ends on its own side too, so that its owner can be destroyed, and nothing it does reaches
  /// anybody.
  void kill(DeviceId device);

  /// Payload bytes buffered on their way from `from` to `to`: what the back-pressure contract
  /// bounds.
  std::size_t buffered_bytes(DeviceId from, DeviceId to) const;

 private:
  friend class LoopbackWire;
  struct InFlight {
    DeviceId from, to;
    std::vector<std::byte> header;
    std::vector<std::byte> eager;          // the payload, if it travelled along
    std::span<const std::byte> at_sender;  // the payload, if it did not
    std::size_t bytes = 0;
    Token token = 0;
    bool is_eager = false;
    bool damaged = false;
  };
  struct Arrived {
    MessageId id;
  };
  struct Event {
    std::variant<Arrived, SendFinished, ReceiveFinished, PeerLost> what;
    std::uint32_t delay = 0;
  };
  struct Station {
    std::set<DeviceId> connected;
    std::deque<Event> inbox;
    std::condition_variable changed;
    bool woken = false;
    bool alive = true;
  };

  void post(DeviceId to, decltype(Event::what) what);
  /// Ends all that is under way between two stations; `error` is told to `told`, kCancelled to the
  /// other.
  void cut(DeviceId dropper, DeviceId told, const Error& error);
  void finish_send(const InFlight& message, Outcome<void> outcome);

  const LoopbackOptions options_;
  mutable std::mutex mutex_;
  std::map<DeviceId, std::unique_ptr<Station>> stations_;
  std::map<MessageId, InFlight> messages_;
  std::map<std::pair<DeviceId, DeviceId>, std::size_t> buffered_;
  std::uint64_t next_message_ = 1;
  std::uint64_t payloads_ = 0;
  PhiloxStream random_;
};

}  // namespace weft::transfer
