#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "transfer/execute/chunk_header.h"
#include "transfer/execute/transfer_id.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Message that arrived before its transfer was started on this device.
struct EarlyMessage {
  MessageId message;
  DeviceId sender;
  ChunkHeader header;
  std::size_t bytes;
};

/// Messages and announcements of transfers that this device has not started yet. Transfer thread
/// only.
class EarlyMessages final {
 public:
  /// Number of chunks of one sender that may wait for transfers not started here. As many four-byte
  /// chunks fit in its budget of eager bytes. A sender of more has another plan, and would fill
  /// this device's memory.
  static constexpr std::size_t kMaxPerSender = Wire::kEagerBudget / 4;

  /// Keeps a message. Returns false if its sender is at the limit; take_over_limit() names it then.
  bool keep(const Message& message, const ChunkHeader& header);
  /// Removes and returns the messages of a transfer.
  std::vector<EarlyMessage> take(const TransferId& id);
  /// Returns the transfers that have messages.
  std::vector<TransferId> transfers() const;
  /// Returns the senders of a transfer's messages.
  std::set<DeviceId> senders_of(const TransferId& id) const;
  /// Returns the senders that exceeded the limit since the last call.
  std::set<DeviceId> take_over_limit() { return std::exchange(over_limit_, {}); }

  /// Records that the first bytes of a transfer are on their way.
  void announce(const TransferId& id);
  /// Returns true, once, for an announced transfer.
  bool take_announcement(const TransferId& id) { return announced_.erase(id) != 0; }
  void clear_announcements() { announced_.clear(); }

 private:
  std::unordered_map<TransferId, std::vector<EarlyMessage>> messages_;
  std::map<DeviceId, std::size_t> num_from_;  // number of messages per sender
  std::set<DeviceId> over_limit_;
  std::unordered_set<TransferId> announced_;
};

}  // namespace weft::transfer
