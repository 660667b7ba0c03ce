#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/strong_id.h"
#include "core/codec/bytes.h"
#include "core/codec/codec_check.h"
#include "core/codec/fields.h"

namespace weft {

/// Conversion of a type to bytes and back. Specialised below for the standard types and for every
/// struct with `fields`. Specialise it for a class that has invariants to check:
///
///   template <>
///   struct weft::codec<Region> {
///     static constexpr std::size_t kMinBytes = 4;  // fewest bytes that write() appends
///     static constexpr std::uint64_t kFingerprint = type_fingerprint<std::vector<Interval>>();
///     static void write(ByteWriter& writer, const Region& value);
///     static Region read(ByteReader& reader);  // throws Error(kDataLoss) on damage
///   };
///
/// The format is little-endian without padding or tags. Both sides must have the same type, which
/// they verify by its fingerprint.
///
/// This one is of types without a codec: each use fails with a static assertion.
template <typename T>
struct codec {
  using Parts = void;
  static constexpr std::size_t kMinBytes = 0;
  static constexpr std::uint64_t kFingerprint = report_missing_codec<T>() ? 1 : 0;
  static void write(ByteWriter&, const T&) { report_missing_codec<T>(); }
  template <typename Value = T>
  static Value read(ByteReader& reader) {
    report_missing_codec<T>();
    reader.fail("a type without a codec");
  }
};

template <typename T>
void write_value(ByteWriter& writer, const T& value) {
  codec<T>::write(writer, value);
}
template <typename T>
T read_value(ByteReader& reader) {
  return codec<T>::read(reader);
}

/// `context`: see ByteWriter::context().
template <typename T>
std::vector<std::byte> encode(const T& value, EncodeContext* context = nullptr) {
  ByteWriter writer(context);
  codec<T>::write(writer, value);
  return std::move(writer).take();
}

/// Decodes one T. Throws Error(kDataLoss) if `bytes` are damaged or are not exactly one T.
/// `context`: see ByteReader::context().
template <typename T>
T decode(std::span<const std::byte> bytes, DecodeContext* context = nullptr) {
  ByteReader reader(bytes, context);
  if constexpr (CodecCheck<T>::value) {
    T value = codec<T>::read(reader);
    reader.expect_end();
    return value;
  } else {
    reader.fail("a type without a codec");
  }
}

/// Returns a compile-time hash that is equal for types with the same encoding and member names.
template <typename T>
constexpr std::uint64_t type_fingerprint() {
  return codec<T>::kFingerprint;
}

/// Largest enumerator of an enum that counts from 0. Optional: if specialised, decoding rejects
/// larger values as damaged.
///
///   template <>
///   struct weft::last_enumerator<Op> {
///     static constexpr Op kValue = Op::kSum;
///   };
template <typename E>
struct last_enumerator {};

template <PortableNumber T>
struct codec<T> {
  static constexpr std::size_t kMinBytes = sizeof(T);
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(fingerprint_of(std::is_same_v<T, bool>       ? "bool"
                                     : std::is_floating_point_v<T> ? "float"
                                     : std::is_signed_v<T>         ? "int"
                                                                   : "uint"),
                      sizeof(T));
  static void write(ByteWriter& writer, T value) {
    if constexpr (std::is_same_v<T, bool>) writer.write(static_cast<std::uint8_t>(value));
    else writer.write(value);
  }
  static T read(ByteReader& reader) {
    if constexpr (std::is_same_v<T, bool>) {
      const auto value = reader.read<std::uint8_t>();
      if (value > 1) reader.fail("a bool that is neither 0 nor 1");
      return value == 1;
    } else {
      return reader.read<T>();
    }
  }
};

template <ScopedEnum T>
struct codec<T> {
  using Underlying = std::underlying_type_t<T>;
  static constexpr std::size_t kMinBytes = sizeof(T);
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(fingerprint_of("enum"), codec<Underlying>::kFingerprint);
  static void write(ByteWriter& writer, T value) { writer.write(static_cast<Underlying>(value)); }
  static T read(ByteReader& reader) {
    const auto value = reader.read<Underlying>();
    if constexpr (requires { last_enumerator<T>::kValue; }) {
      if (value < Underlying{0} || value > static_cast<Underlying>(last_enumerator<T>::kValue))
        reader.fail("an enumerator that does not exist");
    }
    return static_cast<T>(value);
  }
};

template <typename Tag, typename U>
struct codec<StrongId<Tag, U>> {
  static constexpr std::size_t kMinBytes = sizeof(U);
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(fingerprint_of("id"), codec<U>::kFingerprint);
  static void write(ByteWriter& writer, StrongId<Tag, U> value) { writer.write(value.value()); }
  static StrongId<Tag, U> read(ByteReader& reader) {
    return StrongId<Tag, U>(codec<U>::read(reader));
  }
};

template <typename Rep, typename Period>
struct codec<std::chrono::duration<Rep, Period>> {
  using Duration = std::chrono::duration<Rep, Period>;
  static constexpr std::size_t kMinBytes = codec<Rep>::kMinBytes;
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(mix_fingerprint(fingerprint_of("duration"), Period::num),
                      mix_fingerprint(Period::den, codec<Rep>::kFingerprint));
  static void write(ByteWriter& writer, Duration value) {
    codec<Rep>::write(writer, value.count());
  }
  static Duration read(ByteReader& reader) { return Duration(codec<Rep>::read(reader)); }
};

template <>
struct codec<std::string> {
  static constexpr std::size_t kMinBytes = 4;
  static constexpr std::uint64_t kFingerprint = fingerprint_of("string");
  static void write(ByteWriter& writer, const std::string& value) {
    writer.write_count(value.size());
    writer.write_bytes(std::as_bytes(std::span(value)));
  }
  static std::string read(ByteReader& reader) {
    const auto bytes = reader.read_bytes(reader.read_count(1));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
};

template <>
struct codec<std::monostate> {
  static constexpr std::size_t kMinBytes = 0;
  static constexpr std::uint64_t kFingerprint = fingerprint_of("nothing");
  static void write(ByteWriter&, std::monostate) {}
  static std::monostate read(ByteReader&) { return {}; }
};

template <typename T>
requires(!std::is_same_v<T, bool>) struct codec<std::vector<T>> {
  using Parts = std::tuple<T>;
  static constexpr bool kBulk = std::is_arithmetic_v<T> || std::is_same_v<T, std::byte>;
  static constexpr std::size_t kMinBytes = 4;
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(fingerprint_of("list"), codec<T>::kFingerprint);
  static void write(ByteWriter& writer, const std::vector<T>& value) {
    writer.write_count(value.size());
    if constexpr (kBulk) writer.write_bytes(std::as_bytes(std::span(value)));
    else
      for (const T& element : value) codec<T>::write(writer, element);
  }
  static std::vector<T> read(ByteReader& reader) {
    const std::size_t count = reader.read_count(codec<T>::kMinBytes);
    std::vector<T> value;
    if constexpr (std::is_same_v<T, std::byte>) {
      const auto bytes = reader.read_bytes(count);
      value.assign(bytes.begin(), bytes.end());
    } else if constexpr (kBulk) {
      value.resize(count);
      const auto bytes = reader.read_bytes(count * sizeof(T));
      if (count != 0) std::memcpy(value.data(), bytes.data(), bytes.size());
    } else {
      // Reserves memory in proportion to the remaining bytes, not to the announced count.
      value.reserve(std::min(count, reader.remaining() / sizeof(T) + 1));
      for (std::size_t i = 0; i < count; ++i) value.push_back(codec<T>::read(reader));
    }
    return value;
  }
};

template <typename T, std::size_t N>
struct codec<std::array<T, N>> {
  using Parts = std::tuple<T>;
  static constexpr std::size_t kMinBytes = N * codec<T>::kMinBytes;
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(mix_fingerprint(fingerprint_of("array"), N), codec<T>::kFingerprint);
  static void write(ByteWriter& writer, const std::array<T, N>& value) {
    for (const T& element : value) codec<T>::write(writer, element);
  }
  static std::array<T, N> read(ByteReader& reader) {
    std::array<T, N> value{};
    for (T& element : value) element = codec<T>::read(reader);
    return value;
  }
};

template <typename T>
struct codec<std::optional<T>> {
  using Parts = std::tuple<T>;
  static constexpr std::size_t kMinBytes = 1;
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(fingerprint_of("optional"), codec<T>::kFingerprint);
  static void write(ByteWriter& writer, const std::optional<T>& value) {
    codec<bool>::write(writer, value.has_value());
    if (value) codec<T>::write(writer, *value);
  }
  static std::optional<T> read(ByteReader& reader) {
    if (!codec<bool>::read(reader)) return std::nullopt;
    return codec<T>::read(reader);
  }
};

template <typename A, typename B>
struct codec<std::pair<A, B>> {
  using Parts = std::tuple<A, B>;
  static constexpr std::size_t kMinBytes = codec<A>::kMinBytes + codec<B>::kMinBytes;
  static constexpr std::uint64_t kFingerprint = mix_fingerprint(
      mix_fingerprint(fingerprint_of("pair"), codec<A>::kFingerprint), codec<B>::kFingerprint);
  static void write(ByteWriter& writer, const std::pair<A, B>& value) {
    codec<A>::write(writer, value.first);
    codec<B>::write(writer, value.second);
  }
  static std::pair<A, B> read(ByteReader& reader) {
    A first = codec<A>::read(reader);
    B second = codec<B>::read(reader);
    return {std::move(first), std::move(second)};
  }
};

template <typename... Ts>
struct codec<std::tuple<Ts...>> {
  using Parts = std::tuple<Ts...>;
  static constexpr std::size_t kMinBytes = (std::size_t{0} + ... + codec<Ts>::kMinBytes);
  static constexpr std::uint64_t kFingerprint = [] {
    std::uint64_t hash = fingerprint_of("tuple");
    ((hash = mix_fingerprint(hash, codec<Ts>::kFingerprint)), ...);
    return hash;
  }();
  static void write(ByteWriter& writer, const std::tuple<Ts...>& value) {
    std::apply([&](const Ts&... element) { (codec<Ts>::write(writer, element), ...); }, value);
  }
  static std::tuple<Ts...> read(ByteReader& reader) {
    // A braced list is evaluated from left to right.
    return std::tuple<Ts...>{codec<Ts>::read(reader)...};
  }
};

template <typename... Ts>
struct codec<std::variant<Ts...>> {
  using Parts = std::tuple<Ts...>;
  static_assert(sizeof...(Ts) <= 255);
  static constexpr std::size_t kMinBytes = 1;
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(fingerprint_of("variant"), codec<std::tuple<Ts...>>::kFingerprint);
  static void write(ByteWriter& writer, const std::variant<Ts...>& value) {
    writer.write(static_cast<std::uint8_t>(value.index()));
    std::visit([&]<typename T>(const T& alternative) { codec<T>::write(writer, alternative); },
               value);
  }
  static std::variant<Ts...> read(ByteReader& reader) {
    const auto index = reader.read<std::uint8_t>();
    if (index >= sizeof...(Ts)) reader.fail("a variant alternative that does not exist");
    return read_alternative<0>(reader, index);
  }

 private:
  template <std::size_t I>
  static std::variant<Ts...> read_alternative(ByteReader& reader, std::size_t index) {
    if (index == I)
      return std::variant<Ts...>(
          std::in_place_index<I>,
          codec<std::variant_alternative_t<I, std::variant<Ts...>>>::read(reader));
    if constexpr (I + 1 < sizeof...(Ts)) return read_alternative<I + 1>(reader, index);
    else reader.fail("a variant alternative that does not exist");
  }
};

template <typename K, typename V>
struct codec<std::map<K, V>> {
  using Parts = std::tuple<K, V>;
  static constexpr std::size_t kMinBytes = 4;
  static constexpr std::uint64_t kFingerprint = mix_fingerprint(
      mix_fingerprint(fingerprint_of("map"), codec<K>::kFingerprint), codec<V>::kFingerprint);
  static void write(ByteWriter& writer, const std::map<K, V>& value) {
    writer.write_count(value.size());
    for (const auto& [key, mapped] : value) {
      codec<K>::write(writer, key);
      codec<V>::write(writer, mapped);
    }
  }
  static std::map<K, V> read(ByteReader& reader) {
    const std::size_t count = reader.read_count(codec<K>::kMinBytes + codec<V>::kMinBytes);
    std::map<K, V> value;
    for (std::size_t i = 0; i < count; ++i) {
      K key = codec<K>::read(reader);
      V mapped = codec<V>::read(reader);
      if (!value.emplace(std::move(key), std::move(mapped)).second)
        reader.fail("a map with the same key twice");
    }
    return value;
  }
};

template <typename T>
struct codec<std::set<T>> {
  using Parts = std::tuple<T>;
  static constexpr std::size_t kMinBytes = 4;
  static constexpr std::uint64_t kFingerprint =
      mix_fingerprint(fingerprint_of("set"), codec<T>::kFingerprint);
  static void write(ByteWriter& writer, const std::set<T>& value) {
    writer.write_count(value.size());
    for (const T& element : value) codec<T>::write(writer, element);
  }
  static std::set<T> read(ByteReader& reader) {
    const std::size_t count = reader.read_count(codec<T>::kMinBytes);
    std::set<T> value;
    for (std::size_t i = 0; i < count; ++i)
      if (!value.insert(codec<T>::read(reader)).second)
        reader.fail("a set with the same element twice");
    return value;
  }
};

/// Codec of structs that list their fields: the members in the order of the list.
template <HasFields T>
struct codec<T> {
 private:
  using Tuple = std::remove_cvref_t<decltype(T::fields)>;
  template <std::size_t I>
  using Member = std::remove_cvref_t<decltype(std::declval<T&>().*std::get<I>(T::fields))>;
  static constexpr auto kIndices = std::make_index_sequence<std::tuple_size_v<Tuple>>();

  template <std::size_t... I>
  static std::tuple<Member<I>...> parts(std::index_sequence<I...>);
  template <std::size_t... I>
  static constexpr std::size_t min_bytes(std::index_sequence<I...>) {
    return (std::size_t{0} + ... + codec<Member<I>>::kMinBytes);
  }
  template <std::size_t... I>
  static constexpr std::uint64_t fingerprint(std::index_sequence<I...>) {
    std::uint64_t hash = fingerprint_of("struct");
    ((hash = mix_fingerprint(
          mix_fingerprint(hash, fingerprint_of(member_name<std::get<I>(T::fields)>())),
          codec<Member<I>>::kFingerprint)),
     ...);
    return hash;
  }

 public:
  using Parts = decltype(parts(kIndices));
  static constexpr std::size_t kMinBytes = min_bytes(kIndices);
  static constexpr std::uint64_t kFingerprint = fingerprint(kIndices);
  static void write(ByteWriter& writer, const T& value) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (codec<Member<I>>::write(writer, value.*std::get<I>(T::fields)), ...);
    }
    (kIndices);
  }
  static T read(ByteReader& reader) {
    T value{};
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((value.*std::get<I>(T::fields) = codec<Member<I>>::read(reader)), ...);
    }
    (kIndices);
    return value;
  }
};

}  // namespace weft
