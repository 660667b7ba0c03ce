#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "transfer/execute/active_work.h"
#include "transfer/execute/transfer_id.h"
#include "transfer/execute/transfer_port.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Send or receive that the wire works on.
struct WireOperation {
  enum class Kind : std::uint8_t { kFree, kSendChunk, kReceiveChunk, kSendNote, kReceiveAbort };
  Kind kind = Kind::kFree;
  DeviceId peer;
  ActiveWork* work = nullptr;  // outlives the operation, since it waits for it
  PendingChunk what = {};
  std::vector<std::byte> payload = {};  // payload of an abort
  TransferId id = {};                   // id of a received abort
  std::uint64_t bytes = 0;              // bytes of a chunk
};

/// Sends and receives in flight, by the token that the wire passes back. Transfer thread only.
class OperationTable final {
 public:
  Token add(WireOperation operation);
  /// Removes and returns an operation, which must be there.
  WireOperation take(Token token);
  /// Returns the payload of an abort in flight. Its bytes do not move while operations are added.
  std::vector<std::byte>& payload_of(Token token) { return operations_[token].payload; }
  bool empty() const { return operations_.size() == free_.size(); }
  /// Returns the number of operations in flight per peer.
  std::map<DeviceId, std::size_t> count_by_peer() const;

 private:
  std::vector<WireOperation> operations_;
  std::vector<std::uint32_t> free_;
};

}  // namespace weft::transfer
