#include "actors/net/frame.h"

#include <cstring>

#include "core/base/error.h"

namespace weft::actors {

namespace {

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Returns a multiply-and-fold hash of the header without its checksum.
std::uint32_t checksum(const std::byte* bytes) {
  std::uint64_t hash = 0x9e3779b97f4a7c15ull;
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
  };
  mix(load<std::uint64_t>(bytes));
  mix(load<std::uint32_t>(bytes + 8));
  mix(load<std::uint64_t>(bytes + 16));
  return static_cast<std::uint32_t>(hash);
}

}  // namespace

std::array<std::byte, kFrameHeaderBytes> pack(const FrameHeader& header) {
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  std::memcpy(bytes.data(), &kFrameMagic, 4);
  bytes[4] = std::byte{header.major};
  bytes[5] = std::byte{header.minor};
  bytes[6] = std::byte{header.kind};
  bytes[7] = std::byte{header.flags};
  std::memcpy(bytes.data() + 8, &header.length, 4);
  std::memcpy(bytes.data() + 16, &header.sequence, 8);
  const std::uint32_t sum = checksum(bytes.data());
  std::memcpy(bytes.data() + 12, &sum, 4);
  return bytes;
}

FrameHeader unpack(std::span<const std::byte, kFrameHeaderBytes> bytes,
                   std::uint64_t expected_sequence, std::uint32_t max_body) {
  if (load<std::uint32_t>(bytes.data()) != kFrameMagic)
    throw_error(ErrorCode::kDataLoss,
                "the other side does not speak Weft's protocol (its frame starts with {:#010x})",
                load<std::uint32_t>(bytes.data()));
  FrameHeader header;
  header.major = static_cast<std::uint8_t>(bytes[4]);
  header.minor = static_cast<std::uint8_t>(bytes[5]);
  header.kind = static_cast<std::uint8_t>(bytes[6]);
  header.flags = static_cast<std::uint8_t>(bytes[7]);
  header.length = load<std::uint32_t>(bytes.data() + 8);
  header.sequence = load<std::uint64_t>(bytes.data() + 16);
  if (load<std::uint32_t>(bytes.data() + 12) != checksum(bytes.data()))
    throw_error(ErrorCode::kDataLoss, "a frame header is damaged (checksum)");
  if (header.major != kProtocolMajor)
    throw_error(
        ErrorCode::kIncompatible,
        "the other side speaks protocol {}.{}, this one {}.{}; install the same Weft on both",
        header.major, header.minor, kProtocolMajor, kProtocolMinor);
  if (header.sequence != expected_sequence)
    throw_error(ErrorCode::kDataLoss, "frame {} arrived where frame {} was expected",
                header.sequence, expected_sequence);
  if (header.length > max_body)
    throw_error(ErrorCode::kDataLoss, "a frame announces {} bytes, more than the {} allowed here",
                header.length, max_body);
  return header;
}

}  // namespace weft::actors
