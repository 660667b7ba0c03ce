#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "transfer/execute/transfer_id.h"

namespace weft::transfer {

/// Header of every message on a wire. Little-endian, copied as is.
struct ChunkHeader {
  static constexpr std::uint32_t kChunk = 0x57465401;  // "WFT", version 1
  // notice that this transfer failed on the sender; the payload is an Error
  static constexpr std::uint32_t kAbort = 0x574654ff;
  // notice that the receiver cannot take this chunk yet; see EgressOrder
  static constexpr std::uint32_t kNotReady = 0x574654fe;
  // announcement of a flow's first chunk, which is otherwise seen only once all of it has arrived
  static constexpr std::uint32_t kAnnounce = 0x574654fd;

  // block of an exchange's stream, numbered by `chunk`
  static constexpr std::uint32_t kBlock = 0x57465402;
  // exchange: the receiver of a stream accepts blocks below `chunk`, of at most `flow` bytes
  static constexpr std::uint32_t kCredit = 0x574654fc;
  // exchange: the stream has `chunk` blocks
  static constexpr std::uint32_t kEnd = 0x574654fb;
  // exchange: the receiver has consumed all blocks of the stream
  static constexpr std::uint32_t kConsumed = 0x574654fa;

  std::uint32_t magic = kChunk;
  std::uint32_t flow = 0;
  std::uint32_t chunk = 0;
  std::uint32_t crc = 0;  // CRC32C of the payload; 0: none
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
  /// Parses a header. Returns nullopt if the number of bytes is wrong. Accepts any `magic`.
  static std::optional<ChunkHeader> parse(std::span<const std::byte> bytes) {
    ChunkHeader header;
    if (bytes.size() != sizeof(header)) return std::nullopt;
    std::memcpy(&header, bytes.data(), sizeof(header));
    return header;
  }
};
static_assert(sizeof(ChunkHeader) == 40);

}  // namespace weft::transfer
