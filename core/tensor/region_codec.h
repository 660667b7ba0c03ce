#pragma once

#include "core/codec/codec.h"
#include "core/tensor/region.h"
#include "core/tensor/shape.h"

namespace weft {

/// Codecs of the types in core/tensor. Shape is a std::vector and needs none. Decoding rejects a
/// Region with an empty or reversed interval, and a TensorType with a negative extent.
template <>
struct last_enumerator<DType> {
  static constexpr DType kValue = DType::kBF16;
};

template <>
struct codec<Interval> {
  static constexpr std::size_t kMinBytes = 16;
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(fingerprint_of("interval"), codec<std::int64_t>::kFingerprint);
  static void write(ByteWriter& writer, const Interval& value);
  static Interval read(ByteReader& reader);
};

template <>
struct codec<Region> {
  static constexpr std::size_t kMinBytes = 4;
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(fingerprint_of("region"), codec<std::vector<Interval>>::kFingerprint);
  static void write(ByteWriter& writer, const Region& value);
  static Region read(ByteReader& reader);
};

template <>
struct codec<TensorType> {
  static constexpr std::size_t kMinBytes = 5;
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(fingerprint_of("tensor type"), codec<Shape>::kFingerprint);
  static void write(ByteWriter& writer, const TensorType& value);
  static TensorType read(ByteReader& reader);
};

}  // namespace weft
