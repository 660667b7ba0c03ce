#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "transfer/wire/wire.h"

namespace weft::test {

/// Kind of wire under test. Makes the wires of devices 0, 1, ...
class WireWorld {
 public:
  virtual ~WireWorld() = default;
  virtual std::unique_ptr<transfer::Wire> make(transfer::DeviceId device) = 0;
  /// Returns the host of a device.
  virtual transfer::HostId host_of(transfer::DeviceId device) const = 0;
};

struct WireKind {
  std::string name;
  std::function<std::unique_ptr<WireWorld>()> make;
};

/// Returns all kinds of wires. Add new back ends here.
std::vector<WireKind> wire_kinds();

/// Owner of a wire in a test. Records events, and handles messages as a test says.
class Recorder final : public transfer::WireEvents {
 public:
  struct Kept {
    transfer::MessageId id;
    transfer::DeviceId sender;
    std::vector<std::byte> header;
    std::size_t bytes = 0;
    std::vector<std::byte> payload;  // if it came with the message
  };

  explicit Recorder(std::unique_ptr<transfer::Wire> owned) : wire(std::move(owned)) {
    wire->set_events(*this);
  }

  void message_arrived(const transfer::Message& message) override {
    Kept kept{message.id,
              message.sender,
              {message.header.begin(), message.header.end()},
              message.bytes,
              {message.payload.begin(), message.payload.end()}};
    if (at_once) at_once(kept);
    else arrived.push_back(std::move(kept));
  }
  void send_finished(transfer::Token token, const Outcome<void>& outcome) override {
    sends[token].push_back(outcome);
  }
  void receive_finished(transfer::Token token, const Outcome<void>& outcome) override {
    receives[token].push_back(outcome);
  }
  void peer_lost(transfer::DeviceId peer, const Error& error) override {
    lost[peer].push_back(error);
  }
  void message_refused(std::optional<transfer::DeviceId>, std::string_view) override {}

  std::unique_ptr<transfer::Wire> wire;
  std::function<void(const Kept&)> at_once;  // called in message_arrived() if set
  std::deque<Kept> arrived;                  // messages, if at_once is not set
  std::map<transfer::Token, std::vector<Outcome<void>>> sends, receives;
  std::map<transfer::DeviceId, std::vector<Error>> lost;
};

}  // namespace weft::test
