#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "actors/net/network.h"
#include "core/base/aead.h"

namespace weft::actors {

/// Cipher and keys of a connection, a key for each direction, as one of its ends uses them.
struct SealKeys {
  Aead::Cipher cipher = Aead::Cipher::kChaCha20Poly1305;
  Aead::Key sends{};
  Aead::Key receives{};
};

/// Most plain bytes of one record.
inline constexpr std::size_t kMaxSealed = std::size_t{64} << 10;
/// Records after which a direction takes its next key: 64 GiB at most. AES-256-GCM is still far
/// from the amount that it may encrypt with one key (RFC 8446, 5.5).
inline constexpr std::uint64_t kSealsPerKey = std::uint64_t{1} << 20;

/// Encrypts and authenticates what goes over `inner` from here on. A write becomes one record, or
/// more where it is longer than kMaxSealed:
///
///   0      4                      4+n    20+n
///   |n     |n encrypted bytes     |tag   |          n: 1 to kMaxSealed, little-endian
///
/// The tag covers n and the bytes. The nonce is the number of the record in its direction, counted
/// from 0 and not sent. So a record that was changed, repeated, left out, put in, or sent back to
/// its sender fails: the read ends with kDataLoss, and nothing is read after it.
///
/// `arrived`: bytes that came after the last plain one, and were read with it; at most a record.
std::unique_ptr<Stream> seal(std::unique_ptr<Stream> inner, const SealKeys& keys,
                             std::span<const std::byte> arrived,
                             std::uint64_t seals_per_key = kSealsPerKey);

}  // namespace weft::actors
