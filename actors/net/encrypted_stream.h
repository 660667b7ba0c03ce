#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "actors/net/network.h"
#include "core/base/aead.h"

namespace weft::actors {

/// Cipher of a connection and a key for each direction, as one end uses them.
struct StreamKeys {
  Aead::Cipher cipher = Aead::Cipher::kChaCha20Poly1305;
  Aead::Key sends{};
  Aead::Key receives{};
};

/// Maximum plaintext bytes of one record.
inline constexpr std::size_t kMaxPlaintextRecord = std::size_t{64} << 10;
/// Records after which a direction changes its key: 64 GiB at most, far below the limit of
/// AES-256-GCM for one key (RFC 8446, 5.5).
inline constexpr std::uint64_t kRecordsPerRekey = std::uint64_t{1} << 20;

/// Returns a stream that encrypts and authenticates all further data over `inner`. A write becomes
/// one record, or several if it is longer than kMaxPlaintextRecord:
///
///   0      4                      4+n    20+n
///   |n     |n encrypted bytes     |tag   |          n: 1 to kMaxPlaintextRecord, little-endian
///
/// The tag covers n and the bytes. The nonce is the number of the record in its direction, counted
/// from 0 and not sent. A record that was changed, repeated, dropped, inserted or sent back to its
/// sender therefore fails: the read ends with kDataLoss, and nothing is read after it.
///
/// `arrived`: bytes that were read with the last plain byte and follow it; at most a record.
std::unique_ptr<ByteStream> seal(std::unique_ptr<ByteStream> inner, const StreamKeys& keys,
                                 std::span<const std::byte> arrived,
                                 std::uint64_t seals_per_key = kRecordsPerRekey);

}  // namespace weft::actors
