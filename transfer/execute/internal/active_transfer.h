#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "transfer/execute/active_work.h"
#include "transfer/execute/chunk_header.h"
#include "transfer/execute/internal/transfer_buffers.h"
#include "transfer/execute/internal/transfer_reduction.h"
#include "transfer/execute/internal/transfer_stream.h"
#include "transfer/execute/transfer_id.h"
#include "transfer/execute/transfer_limits.h"
#include "transfer/execute/transfer_port.h"
#include "transfer/execute/transfer_report.h"
#include "transfer/flow/device_part.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Transfer in progress on this device: moves the chunks of its streams (TransferStream), and the
/// terms and results of its reductions (TransferReduction).
///
///   arrives ─▶ (held: no slot free) ─▶ received ─▶ landed
///   landed ─┬▶ in the destination, unpacked if strided
///           ├▶ forwarded to each child, at most `window` at a time
///           ├▶ a partial sum: this device's own term is added first
///           └▶ a term of a reduction ─▶ reduced ─▶ sent as a result
///
/// See ActiveWork.
class ActiveTransfer final : public ActiveWork {
 public:
  ActiveTransfer(const TransferContext& context, const DevicePart& part, const TransferId& id,
                 std::uint64_t order, TransferBuffers buffers, const TransferLimits& limits);

  TransferReport report() const override;
  /// Makes the local copies and starts the first sends.
  void begin() override;
  Arrival message_arrived(MessageId message, DeviceId sender, const ChunkHeader& header,
                          std::size_t bytes, std::span<const std::byte> payload) override;
  void chunk_refused(DeviceId child, std::uint32_t flow, std::uint32_t chunk) override;
  void chunk_sent(const PendingChunk& what, const Outcome<void>& outcome) override;
  void chunk_received(const PendingChunk& what, const Outcome<void>& outcome) override;
  NetworkUse network_use(std::uint32_t stream) const override;
  void send_over_network(std::uint32_t stream) override;
  bool needs(DeviceId peer) const override;
  std::set<DeviceId> abandon_messages() override;

 private:
  std::optional<std::uint32_t> find_stream(std::uint32_t flow) const;
  /// Returns the stream whose children receive its chunks as flow `flow`.
  std::optional<std::uint32_t> find_sending(std::uint32_t flow) const;
  bool can_receive(const TransferStream& stream, std::uint32_t chunk) const;
  void take(std::uint32_t index, std::uint32_t chunk, MessageId message,
            std::span<const std::byte> payload);
  void landed(std::uint32_t index, std::uint32_t chunk);
  /// Checks a chunk's CRC32C. Returns false if it differs; the transfer has then failed.
  bool verify(TransferStream& stream, std::uint32_t chunk, std::span<const std::byte> bytes);
  void copy_locally();
  /// Keeps a copy of this device's own terms that an in-place reduction overwrites.
  void pack_overwritten_terms();
  void reduce(std::uint32_t index, std::uint32_t chunk);
  /// Sends all chunks that can be sent: immediately inside the host, in their turn over the
  /// network.
  void pump(std::uint32_t index);
  /// Sends one more chunk if possible. Returns false if none can be sent.
  bool send_next(std::uint32_t index, std::uint32_t child);
  void receive_held(std::uint32_t index);
  void release_slot(std::uint32_t index, std::uint32_t chunk);
  void complete_one();
  std::set<DeviceId> stop(bool keep_messages) override;
  bool complete() const override { return remaining_ == 0; }
  std::string describe() const override { return "transfer " + to_string(id()); }
  std::string describe_missing() const override;

  const DevicePart& part_;
  const TransferBuffers buffers_;
  std::vector<TransferStream> streams_;
  std::vector<TransferReduction> reductions_;
  // chunks to land, to send per child and to reduce, plus 1 while begin() runs
  std::uint64_t remaining_ = 0;
};

}  // namespace weft::transfer
