#include "tests/simulation/data_wires.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/check.h"

namespace weft::simulation {

using transfer::DeviceId;
using transfer::MessageId;
using transfer::Token;

namespace {

constexpr auto kAgain = std::chrono::milliseconds(200);

}  // namespace

/// Wire of one device.
class DataWire final : public transfer::Wire {
 public:
  DataWire(DataWires& wires, DeviceId self)
      : wires_(wires), self_(self), station_(wires.stations_.at(self)) {}
  ~DataWire() override { wires_.close(self_); }

  DeviceId self() const override { return self_; }
  std::vector<std::byte> address() const override { return {}; }
  void set_events(transfer::WireEvents& events) override { events_ = &events; }
  void connect(DeviceId peer, transfer::HostId, std::span<const std::byte>) override {
    wires_.connect(self_, peer);
  }
  void drop(DeviceId peer) override {
    if (is_connected(peer))
      wires_.cut(self_, peer,
                 Error(ErrorCode::kPeerDied, fmt::format("{} closed its connection", self_)));
  }
  bool is_connected(DeviceId peer) const override { return station_.connections.contains(peer); }
  transfer::Path path_to(DeviceId) const override { return transfer::Path::kTcp; }
  void send(DeviceId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
            Token token) override {
    if (is_connected(peer))
      return wires_.send({self_, peer, {header.begin(), header.end()}, payload, token});
    wires_.post(self_,
                transfer::SendFinished{token, Error(ErrorCode::kUnavailable, "not connected")});
  }
  void receive(MessageId id, std::span<std::byte> buffer, Token token) override {
    wires_.receive(self_, id, {buffer, token});
  }
  void release(MessageId id) override { wires_.release(id); }
  std::size_t progress() override {
    std::size_t done = 0;
    for (; !station_.inbox.empty(); ++done) {
      const DataWires::Event event = std::move(station_.inbox.front());
      station_.inbox.pop_front();
      std::visit([this](const auto& what) { deliver(what); }, event);
    }
    return done;
  }
  void wait(Nanoseconds timeout) override {
    if (!station_.woken && station_.inbox.empty())
      wires_.world_.wait(&station_, wires_.world_.now() + timeout);
    station_.woken = false;
  }
  void wake() override {
    station_.woken = true;
    wires_.world_.wake(&station_, true);
  }

 private:
  void deliver(const DataWires::Arrived& arrived) {
    const auto found = wires_.messages_.find(arrived.id);
    if (found == wires_.messages_.end()) return;
    const std::vector<std::byte> header = found->second.header;
    events_->message_arrived(
        {arrived.id, found->second.from, header, found->second.payload.size(), {}});
  }
  template <typename E>
  void deliver(const E& event) {
    transfer::dispatch_event(*events_, event);
  }

  DataWires& wires_;
  const DeviceId self_;
  DataWires::Station& station_;
  transfer::WireEvents* events_ = nullptr;
};

std::unique_ptr<transfer::Wire> DataWires::make_wire(DeviceId self) {
  const ProcessNumber process = world_.current_process();
  const bool added = stations_.emplace(self, Station{process, world_.host_of(process)}).second;
  WEFT_CHECK(added, "device {} has a wire already", self);
  return std::make_unique<DataWire>(*this, self);
}

void DataWires::travel(DeviceId from, DeviceId to, std::function<void()> then) {
  const int here = stations_.at(from).host, there = stations_.at(to).host;
  const Nanoseconds again = world_.loses() ? kAgain : Nanoseconds::zero();
  world_.after(world_.latency(here, there) + again, [this, from, to, here, there, then] {
    if (!world_.is_cut(here, there)) return then();
    world_.after(kAgain, [this, from, to, then] { travel(from, to, then); });
  });
}

void DataWires::post(DeviceId to, Event event) {
  Station& station = stations_.at(to);
  if (!station.open) return;
  station.inbox.push_back(std::move(event));
  world_.wake(&station, true);
}

void DataWires::connect(DeviceId self, DeviceId peer) {
  Station& station = stations_.at(self);
  const auto known = stations_.find(peer);
  if (known == stations_.end())
    throw_error(ErrorCode::kInvalidArgument, "there is no device {}", peer);
  if (!station.connections.emplace(peer, ++last_connection_).second) return;
  if (!known->second.open) {
    cut(peer, self, Error(ErrorCode::kPeerDied, fmt::format("{} has closed its wire", peer)));
    return;
  }
  for (auto& [id, message] : messages_)
    if (message.from == peer && message.to == self &&
        std::exchange(message.waits_for_connection, false))
      post(self, Arrived{id});
}

void DataWires::send(InFlight message) {
  const MessageId id(++last_message_);
  if (message.payload.empty()) post(message.from, transfer::SendFinished{message.token, {}});
  const DeviceId from = message.from, to = message.to;
  messages_.emplace(id, std::move(message));
  travel(from, to, [this, id] { arrive(id); });
}

void DataWires::arrive(MessageId id) {
  const auto found = messages_.find(id);
  if (found == messages_.end()) return;
  InFlight& message = found->second;
  if (stations_.at(message.to).connections.contains(message.from)) post(message.to, Arrived{id});
  else message.waits_for_connection = true;
}

void DataWires::receive(DeviceId self, MessageId id, InFlight::Receiver receiver) {
  const auto found = messages_.find(id);
  WEFT_CHECK(found == messages_.end() || receiver.buffer.size() == found->second.payload.size(),
             "a buffer of {} bytes", receiver.buffer.size());
  if (found == messages_.end())
    return post(self, transfer::ReceiveFinished{
                          receiver.token, Error(ErrorCode::kPeerDied, "the sender was lost")});
  found->second.receiver = receiver;
  const DeviceId from = found->second.from, to = found->second.to;
  travel(to, from, [this, from, to, id] {
    travel(from, to, [this, id] {
      const auto message = messages_.find(id);
      if (message == messages_.end()) return;
      const InFlight::Receiver into = *message->second.receiver;
      const auto& payload = message->second.payload;
      if (!payload.empty()) std::memcpy(into.buffer.data(), payload.data(), payload.size());
      message->second.receiver.reset();
      post(message->second.to, transfer::ReceiveFinished{into.token, {}});
      release(id);
    });
  });
}

void DataWires::release(MessageId id) {
  const auto found = messages_.find(id);
  if (found == messages_.end()) return;
  if (found->second.payload.empty()) {
    messages_.erase(found);
    return;
  }
  travel(found->second.to, found->second.from, [this, id] {
    const auto message = messages_.extract(id);
    if (message) post(message.mapped().from, transfer::SendFinished{message.mapped().token, {}});
  });
}

void DataWires::cut(DeviceId dropper, DeviceId told, const Error& error) {
  for (auto it = messages_.begin(); it != messages_.end();) {
    const auto [id, message] = *it;
    const bool outward = message.from == dropper && message.to == told;
    if (!outward && !(message.from == told && message.to == dropper)) {
      ++it;
      continue;
    }
    it = messages_.erase(it);
    if (!message.payload.empty())
      post(message.from,
           transfer::SendFinished{message.token,
                                  outward ? Error(ErrorCode::kCancelled, "dropped") : error});
    if (message.receiver)
      post(message.to, transfer::ReceiveFinished{message.receiver->token, error});
  }
  stations_.at(dropper).connections.erase(told);
  auto& connections = stations_.at(told).connections;
  if (const auto broken = connections.extract(dropper))
    travel(dropper, told, [this, dropper, told, error] {
      // A later connection is not lost.
      if (!stations_.at(told).connections.contains(dropper))
        post(told, transfer::PeerLost{dropper, error});
    });
}

void DataWires::close(DeviceId device) {
  Station& station = stations_.at(device);
  if (!std::exchange(station.open, false)) return;
  const Error error(ErrorCode::kPeerDied, fmt::format("{} has closed its wire", device));
  for (const auto& [other, other_station] : stations_)
    if (other_station.connections.contains(device) || station.connections.contains(other))
      cut(device, other, error);
}

void DataWires::process_ended(ProcessNumber process) {
  for (const auto& [device, station] : stations_)
    if (station.process == process) close(device);
}

}  // namespace weft::simulation
