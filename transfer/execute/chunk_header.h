#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "transfer/execute/transfer_id.h"

namespace weft::transfer {

/// What precedes every chunk on a wire. Little-endian, copied as it is.
struct ChunkHeader {
  static constexpr std::uint32_t kChunk = 0x57465401;  // "WFT", version 1
  // a device tells the next one that this transfer failed; the payload is an Error
  static constexpr std::uint32_t kAbort = 0x574654ff;
  // the receiver of this chunk cannot take it yet; see EgressOrder
  static constexpr std::uint32_t kHeld = 0x574654fe;
  // the first chunk of this flow is on its way; what comes at once is seen late
  static constexpr std::uint32_t kBegin = 0x574654fd;

  // Of exchanges. A block of a stream: `chunk` counts them.
  static constexpr std::uint32_t kBlock = 0x57465402;
  // the receiver of a stream takes blocks below `chunk`, of at most `flow` bytes
  static constexpr std::uint32_t kCredit = 0x574654fc;
  // the stream has `chunk` blocks
  static constexpr std::uint32_t kEnd = 0x574654fb;
  // the receiver is done with all of them
  static constexpr std::uint32_t kTaken = 0x574654fa;

  std::uint32_t magic = kChunk;
  std::uint32_t flow = 0;
  std::uint32_t chunk = 0;
  std::uint32_t crc = 0;  // of the payload; 0: not taken
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint32_t op = 0;
  std::uint32_t microbatch = 0;

  bool carries_payload() const { return magic == kChunk || magic == kBlock; }
  TransferId transfer() const { return {epoch, step, op, microbatch}; }

  static ChunkHeader of(std::uint32_t magic, const TransferId& id, std::uint32_t flow,
                        std::uint32_t chunk) {
    return {magic, flow, chunk, 0, id.epoch, id.step, id.op, id.microbatch};
  }
  /// Nothing when the bytes are not as many as a header's. `magic` may be any.
  static std::optional<ChunkHeader> parse(std::span<const std::byte> bytes) {
    ChunkHeader header;
    if (bytes.size() != sizeof(header)) return std::nullopt;
    std::memcpy(&header, bytes.data(), sizeof(header));
    return header;
  }
};
static_assert(sizeof(ChunkHeader) == 40);

}  // namespace weft::transfer
