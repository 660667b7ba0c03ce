#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "transfer/execute/chunk_header.h"
#include "transfer/wire/wire.h"

namespace weft::test {

inline std::vector<std::byte> bytes_of(const transfer::ChunkHeader& header) {
  std::vector<std::byte> bytes(sizeof(header));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

/// Device that sends any bytes and accepts none.
class HostileDevice final : public transfer::WireEvents {
 public:
  explicit HostileDevice(std::unique_ptr<transfer::Wire> wire) : wire_(std::move(wire)) {
    wire_->set_events(*this);
  }
  transfer::Wire& wire() { return *wire_; }

  void send(transfer::DeviceId victim, const std::vector<std::byte>& header,
            std::vector<std::byte> payload = {}) {
    // The receiver may read the payload later.
    const std::vector<std::byte>& kept = payloads_.emplace_back(std::move(payload));
    const std::size_t bytes = std::min(header.size(), transfer::Wire::kMaxHeaderBytes);
    wire_->send(victim, std::span(header).first(bytes), kept, transfer::Token(0));
  }
  void send(transfer::DeviceId victim, const transfer::ChunkHeader& header, std::size_t bytes) {
    send(victim, bytes_of(header), std::vector<std::byte>(bytes));
  }

 private:
  void message_arrived(const transfer::Message& message) override { wire_->release(message.id); }
  void send_finished(transfer::Token, const Outcome<void>&) override {}
  void receive_finished(transfer::Token, const Outcome<void>&) override {}
  void peer_lost(transfer::DeviceId, const Error&) override {}
  void message_refused(std::optional<transfer::DeviceId>, std::string_view) override {}

  std::deque<std::vector<std::byte>> payloads_;
  std::unique_ptr<transfer::Wire> wire_;
};

}  // namespace weft::test
