#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft {

static_assert(std::endian::native == std::endian::little,
              "the wire format is little-endian; add byte swaps here for other machines");

/// Object that sees values of some types while they are encoded, such as references to large data.
/// Each user of the codec that has such types derives its own.
class EncodeContext {
 public:
  EncodeContext() = default;
  virtual ~EncodeContext() = default;
  EncodeContext(const EncodeContext&) = delete;
  EncodeContext& operator=(const EncodeContext&) = delete;
};

/// Buffer to which values are appended. Not thread-safe.
class ByteWriter final {
 public:
  ByteWriter() = default;
  explicit ByteWriter(EncodeContext* context) : context_(context) {}
  explicit ByteWriter(std::size_t reserve_bytes) { bytes_.reserve(reserve_bytes); }

  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void write(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void write_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  /// Returns the object that sees the encoded values; null if there is none.
  EncodeContext* context() const { return context_; }
  /// Writes a 32-bit element count. Throws Error(kInvalidArgument) above 2^32-1.
  void write_count(std::size_t count);

  /// Empties the buffer but keeps its memory.
  void clear() { bytes_.clear(); }
  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
  EncodeContext* context_ = nullptr;
};

/// Object to which decoded values belong, for types such as handles of actors. Each user of the
/// codec that has such types derives its own.
class DecodeContext {
 public:
  DecodeContext() = default;
  virtual ~DecodeContext() = default;
  DecodeContext(const DecodeContext&) = delete;
  DecodeContext& operator=(const DecodeContext&) = delete;
};

/// Reads values from bytes that may be damaged. Every read is bounds-checked and throws
/// Error(kDataLoss) with the position. Borrows the bytes. Not thread-safe.
class ByteReader final {
 public:
  explicit ByteReader(std::span<const std::byte> bytes, DecodeContext* context = nullptr)
      : bytes_(bytes), context_(context) {}

  /// Returns the object to which decoded values belong; null if there is none.
  DecodeContext* context() const { return context_; }

  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> T read() {
    T value;
    std::memcpy(&value, read_bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> read_bytes(std::size_t count) {
    if (count > remaining()) fail_short(count);
    const auto result = bytes_.subspan(position_, count);
    position_ += count;
    return result;
  }
  /// Reads an element count. Throws if fewer than count * min_bytes_each bytes remain. The count of
  /// elements without bytes (empty structs) is limited to 2^16.
  std::size_t read_count(std::size_t min_bytes_each);

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }
  /// Throws Error(kDataLoss) "damaged bytes: <problem>, at byte N of M".
  [[noreturn]] void fail(std::string_view problem) const;
  /// Throws unless all bytes have been read.
  void expect_end() const;

 private:
  [[noreturn]] void fail_short(std::size_t wanted) const;

  std::span<const std::byte> bytes_;
  DecodeContext* context_ = nullptr;
  std::size_t position_ = 0;
};

}  // namespace weft
