#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::actors {

/// Header of every body on a connection. 24 bytes, little-endian:
///
///   0      4     5     6    7     8       12         16          24
///   |magic |major|minor|kind|flags|length |checksum  |sequence   |  body, then zeros up to a
///                                                                   multiple of 8
///
/// The checksum covers the other 20 bytes. The sequence counts the frames of one direction from 0.
/// Bodies start at multiples of 8 bytes of the stream, so that a reader can use them in place.
struct FrameHeader {
  std::uint8_t major = 0;
  std::uint8_t minor = 0;
  std::uint8_t kind = 0;
  std::uint8_t flags = 0;
  std::uint32_t length = 0;
  std::uint64_t sequence = 0;
};

inline constexpr std::size_t kFrameHeaderBytes = 24;
inline constexpr std::uint32_t kFrameMagic = 0x54464557;  // "WEFT"
inline constexpr std::uint8_t kProtocolMajor = 3;
inline constexpr std::uint8_t kProtocolMinor = 1;
/// Maximum bytes of one body. Longer messages use several frames.
inline constexpr std::uint32_t kMaxFrameBody = 1u << 20;

/// Returns the bytes of a body with its padding.
constexpr std::size_t padded(std::size_t body_bytes) { return (body_bytes + 7) & ~std::size_t{7}; }

std::array<std::byte, kFrameHeaderBytes> pack(const FrameHeader& header);

/// Parses a header. Throws Error(kDataLoss) if magic, checksum or sequence is wrong or the length
/// exceeds `max_body`; Error(kIncompatible), naming both versions, if the major version differs.
/// Nothing is allocated for a frame before this succeeds.
FrameHeader unpack(std::span<const std::byte, kFrameHeaderBytes> bytes,
                   std::uint64_t expected_sequence, std::uint32_t max_body);

}  // namespace weft::actors
