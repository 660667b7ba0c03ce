#include "transfer/wire/loopback_hub.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/base/check.h"

namespace weft::transfer {

/// Endpoint of one device at a LoopbackHub.
class LoopbackWire final : public Wire {
 public:
  LoopbackWire(LoopbackHub& hub, DeviceId self)
      : hub_(hub), self_(self), station_(*hub.stations_.at(self)) {}
  ~LoopbackWire() override { hub_.kill(self_); }

  DeviceId self() const override { return self_; }
  std::vector<std::byte> address() const override {
    const std::uint32_t value = self_.value();
    std::vector<std::byte> bytes(sizeof(value));
    std::memcpy(bytes.data(), &value, sizeof(value));
    return bytes;
  }
  void set_events(WireEvents& events) override { events_ = &events; }

  void connect(DeviceId peer, HostId, std::span<const std::byte> address) override {
    const std::scoped_lock lock(hub_.mutex_);
    std::uint32_t value = 0;
    if (address.size() == sizeof(value)) std::memcpy(&value, address.data(), sizeof(value));
    if (address.size() != sizeof(value) || value != peer.value() ||
        !hub_.stations_.contains(peer)) {
      throw_error(ErrorCode::kInvalidArgument,
                  "the address given for device {} is not one of this loopback hub", peer);
    }
    if (!station_.alive || !station_.connected.insert(peer).second) return;
    if (!hub_.stations_.at(peer)->alive) {
      station_.connected.erase(peer);
      hub_.post(self_, PeerLost{peer, Error(ErrorCode::kPeerDied,
                                            fmt::format("device {} has closed its wire", peer))});
    }
  }
  void drop(DeviceId peer) override {
    const std::scoped_lock lock(hub_.mutex_);
    if (!station_.connected.contains(peer)) return;
    hub_.cut(self_, peer,
             Error(ErrorCode::kPeerDied,
                   fmt::format("device {} closed its connection to device {}", self_, peer)));
  }
  bool is_connected(DeviceId peer) const override {
    const std::scoped_lock lock(hub_.mutex_);
    return station_.connected.contains(peer);
  }
  Path path_to(DeviceId peer) const override {
    const auto& hosts = hub_.options_.hosts;
    if (!hosts) return Path::kLoopback;
    return hosts->host_of(self_) == hosts->host_of(peer) ? Path::kSharedMemory : Path::kTcp;
  }

  void send(DeviceId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
            Token token) override {
    WEFT_CHECK(header.size() <= kMaxHeaderBytes, "header of {} bytes", header.size());
    const std::scoped_lock lock(hub_.mutex_);
    if (!station_.connected.contains(peer)) {
      hub_.post(self_, SendFinished{token, Error(ErrorCode::kUnavailable,
                                                 fmt::format("device {} is not connected", peer))});
      return;
    }
    LoopbackHub::InFlight message{self_, peer,    {header.begin(), header.end()},
                                  {},    payload, payload.size(),
                                  token, false,   false};
    if (!payload.empty()) message.damaged = hub_.payloads_++ == hub_.options_.corrupt_payload;
    std::size_t& buffered = hub_.buffered_[{self_, peer}];
    if (payload.size() <= hub_.options_.eager_bytes && buffered + payload.size() <= kEagerBudget) {
      message.is_eager = true;
      message.eager.assign(payload.begin(), payload.end());
      if (message.damaged) message.eager.back() ^= std::byte{1};
      message.rendezvous_bytes = {};
      buffered += payload.size();
      hub_.finish_send(message, {});
    }
    const MessageId id(hub_.next_message_++);
    hub_.messages_.emplace(id, std::move(message));
    hub_.post(peer, LoopbackHub::Arrived{id});
  }

  void receive(MessageId id, std::span<std::byte> buffer, Token token) override {
    const std::scoped_lock lock(hub_.mutex_);
    const auto found = hub_.messages_.find(id);
    if (found == hub_.messages_.end()) {
      hub_.post(self_,
                ReceiveFinished{token, Error(ErrorCode::kPeerDied,
                                             "the sender of the message was lost or dropped")});
      return;
    }
    LoopbackHub::InFlight& message = found->second;
    WEFT_CHECK(message.to == self_ && buffer.size() == message.bytes, "buffer of {} bytes for {}",
               buffer.size(), message.bytes);
    const std::span<const std::byte> from =
        message.is_eager ? std::span<const std::byte>(message.eager) : message.rendezvous_bytes;
    if (!from.empty()) std::memcpy(buffer.data(), from.data(), from.size());
    if (message.damaged && !message.is_eager) buffer.back() ^= std::byte{1};
    end(found);
    hub_.post(self_, ReceiveFinished{token, {}});
  }

  void release(MessageId id) override {
    const std::scoped_lock lock(hub_.mutex_);
    if (const auto found = hub_.messages_.find(id); found != hub_.messages_.end()) end(found);
  }

  std::size_t progress() override {
    WEFT_CHECK(events_ != nullptr, "set_events() comes before progress()");
    std::size_t done = 0;
    while (auto event = next_event()) {
      ++done;
      std::visit([this](auto& what) { deliver(what); }, event->what);
    }
    return done;
  }

  void wait(Nanoseconds timeout) override {
    std::unique_lock lock(hub_.mutex_);
    station_.changed.wait_for(lock, std::min<Nanoseconds>(timeout, std::chrono::hours(1)),
                              [&] { return station_.woken || !station_.inbox.empty(); });
    station_.woken = false;
  }
  void wake() override {
    const std::scoped_lock lock(hub_.mutex_);
    station_.woken = true;
    station_.changed.notify_all();
  }

 private:
  std::optional<LoopbackHub::HubEvent> next_event() {
    const std::scoped_lock lock(hub_.mutex_);
    if (station_.inbox.empty()) return std::nullopt;
    auto chosen = station_.inbox.begin();
    if (hub_.options_.shuffle_seed) {
      for (LoopbackHub::HubEvent& event : station_.inbox) event.delay -= event.delay > 0 ? 1 : 0;
      const auto ready = std::count_if(station_.inbox.begin(), station_.inbox.end(),
                                       [](const auto& event) { return event.delay == 0; });
      if (ready == 0) return std::nullopt;
      auto skip = hub_.random_.below(ready);
      while (chosen->delay != 0 || skip-- != 0) ++chosen;
    }
    LoopbackHub::HubEvent event = std::move(*chosen);
    station_.inbox.erase(chosen);
    return event;
  }

  void deliver(const LoopbackHub::Arrived& arrived) {
    Message message;
    std::vector<std::byte> header;
    {
      const std::scoped_lock lock(hub_.mutex_);
      const auto found = hub_.messages_.find(arrived.id);
      if (found == hub_.messages_.end()) return;  // dropped meanwhile
      header = found->second.header;
      message = {arrived.id, found->second.from, header, found->second.bytes, found->second.eager};
    }
    events_->message_arrived(message);
  }
  template <typename Event>
  void deliver(const Event& event) {
    dispatch_event(*events_, event);
  }

  void end(std::map<MessageId, LoopbackHub::InFlight>::iterator found) {
    const LoopbackHub::InFlight& message = found->second;
    if (message.is_eager) hub_.buffered_[{message.from, message.to}] -= message.bytes;
    else hub_.finish_send(message, {});
    hub_.messages_.erase(found);
  }

  LoopbackHub& hub_;
  const DeviceId self_;
  LoopbackHub::HubEndpoint& station_;
  WireEvents* events_ = nullptr;
};

LoopbackHub::LoopbackHub(const LoopbackOptions& options)
    : options_(options), random_(options.shuffle_seed.value_or(0)) {}
LoopbackHub::~LoopbackHub() = default;

std::unique_ptr<Wire> LoopbackHub::attach(DeviceId device) {
  const std::scoped_lock lock(mutex_);
  WEFT_CHECK(!stations_.contains(device), "device {} is attached already", device);
  stations_.emplace(device, std::make_unique<HubEndpoint>());
  return std::make_unique<LoopbackWire>(*this, device);
}

void LoopbackHub::kill(DeviceId device) {
  const std::scoped_lock lock(mutex_);
  HubEndpoint& station = *stations_.at(device);
  if (!station.alive) return;
  station.alive = false;
  const Error error(ErrorCode::kPeerDied, fmt::format("device {} has closed its wire", device));
  for (auto& [other, other_station] : stations_) {
    if (other != device &&
        (other_station->connected.contains(device) || station.connected.contains(other)))
      cut(device, other, error);
  }
}

std::size_t LoopbackHub::buffered_bytes(DeviceId from, DeviceId to) const {
  const std::scoped_lock lock(mutex_);
  const auto found = buffered_.find({from, to});
  return found == buffered_.end() ? 0 : found->second;
}

void LoopbackHub::post(DeviceId to, decltype(HubEvent::what) what) {
  HubEndpoint& station = *stations_.at(to);
  const std::uint32_t delay =
      options_.shuffle_seed ? static_cast<std::uint32_t>(random_.below(options_.max_delay + 1)) : 0;
  station.inbox.push_back({std::move(what), delay});
  station.changed.notify_all();
}

void LoopbackHub::cut(DeviceId dropper, DeviceId told, const Error& error) {
  for (auto it = messages_.begin(); it != messages_.end();) {
    const InFlight& message = it->second;
    const bool outward = message.from == dropper && message.to == told;
    if (!outward && !(message.from == told && message.to == dropper)) {
      ++it;
      continue;
    }
    if (message.is_eager) buffered_[{message.from, message.to}] -= message.bytes;
    else if (outward)
      finish_send(message, Error(ErrorCode::kCancelled,
                                 fmt::format("the connection to device {} was dropped", told)));
    else finish_send(message, error);
    it = messages_.erase(it);
  }
  stations_.at(dropper)->connected.erase(told);
  if (stations_.at(told)->connected.erase(dropper) != 0) post(told, PeerLost{dropper, error});
}

void LoopbackHub::finish_send(const InFlight& message, Outcome<void> outcome) {
  post(message.from, SendFinished{message.token, std::move(outcome)});
}

}  // namespace weft::transfer
