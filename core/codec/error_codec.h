#pragma once

#include "core/base/error.h"
#include "core/base/outcome.h"
#include "core/codec/codec.h"

namespace weft {

/// Codec of Error: code, message, where, node and actor.
template <>
struct codec<Error> {
  static constexpr std::size_t kMinBytes = 17;
  static constexpr std::uint64_t kFingerprint = fingerprint_of("error");
  static void write(ByteWriter& writer, const Error& error);
  static Error read(ByteReader& reader);
};

/// Codec of Outcome: a leading byte (1 for a value, 0 for an error), then the value or the error.
template <typename T>
struct codec<Outcome<T>> {
  using Parts = std::tuple<T>;
  static constexpr std::size_t kMinBytes = 1;
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(fingerprint_of("outcome"), codec<T>::kFingerprint);
  static void write(ByteWriter& writer, const Outcome<T>& outcome) {
    codec<bool>::write(writer, outcome.ok());
    if (outcome.ok()) codec<T>::write(writer, outcome.value());
    else codec<Error>::write(writer, outcome.error());
  }
  static Outcome<T> read(ByteReader& reader) {
    if (codec<bool>::read(reader)) return Outcome<T>(codec<T>::read(reader));
    return Outcome<T>(codec<Error>::read(reader));
  }
};

}  // namespace weft
