#include "actors/net/encrypted_stream.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/check.h"
#include "core/base/sha256.h"

namespace weft::actors {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kOverhead = kLengthBytes + sizeof(Aead::Tag);
constexpr std::size_t kMaxRecord = kMaxPlaintextRecord + kOverhead;
constexpr std::size_t kFirstBuffer = 4096;
constexpr std::string_view kNextKey = "weft 3 next key";

/// Cipher state of one direction. One thread at a time.
class CipherState final {
 public:
  CipherState(Aead::Cipher cipher, const Aead::Key& key, std::uint64_t seals_per_key)
      : cipher_(cipher), key_(key), seals_per_key_(seals_per_key), aead_(cipher, key) {}

  void seal(std::span<const std::byte> plain, std::byte* record) {
    const auto length = static_cast<std::uint32_t>(plain.size());
    std::memcpy(record, &length, kLengthBytes);
    const Aead::Tag tag =
        aead_.seal(next_nonce(), {record, kLengthBytes}, plain, record + kLengthBytes);
    std::memcpy(record + kLengthBytes + plain.size(), tag.data(), tag.size());
  }
  /// Decrypts `record`, which includes its length and tag. Returns false if it is not authentic.
  bool open(std::span<const std::byte> record, std::byte* plain) {
    Aead::Tag tag;
    std::memcpy(tag.data(), &record[record.size() - tag.size()], tag.size());
    return aead_.open(next_nonce(), record.first(kLengthBytes),
                      record.subspan(kLengthBytes, record.size() - kOverhead), tag, plain);
  }

 private:
  Aead::Nonce next_nonce() {
    if (number_ != 0 && number_ % seals_per_key_ == 0) {
      key_ = hmac_sha256(key_, std::as_bytes(std::span(kNextKey)));
      aead_ = Aead(cipher_, key_);
    }
    Aead::Nonce nonce{};
    std::memcpy(nonce.data(), &number_, sizeof number_);
    ++number_;
    return nonce;
  }

  const Aead::Cipher cipher_;
  Aead::Key key_;
  const std::uint64_t seals_per_key_;
  Aead aead_;
  std::uint64_t number_ = 0;
};

/// Uninitialised buffer: only the used part is touched. Grows to kMaxRecord at most.
class RecordBuffer final {
 public:
  std::byte* data() { return bytes_.get(); }
  std::size_t size() const { return size_; }
  /// Makes room for `size` bytes and keeps the first `kept`.
  void reserve(std::size_t size, std::size_t kept) {
    if (size <= size_) return;
    size_ = std::min(kMaxRecord, std::max(std::bit_ceil(size), kFirstBuffer));
    auto bytes = std::make_unique_for_overwrite<std::byte[]>(size_);
    std::copy_n(bytes_.get(), kept, bytes.get());
    bytes_ = std::move(bytes);
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
};

class EncryptedStream final : public ByteStream {
 public:
  using Then = std::function<void(std::size_t, const std::optional<Error>&)>;
  EncryptedStream(std::unique_ptr<ByteStream> inner, const StreamKeys& keys,
                  std::span<const std::byte> arrived, std::uint64_t seals_per_key)
      : inner_(std::move(inner)),
        sends_(keys.cipher, keys.sends, seals_per_key),
        receives_(keys.cipher, keys.receives, seals_per_key),
        end_(arrived.size()) {
    WEFT_CHECK(arrived.size() <= kMaxRecord);
    in_.reserve(arrived.size(), 0);
    std::copy_n(arrived.begin(), arrived.size(), in_.data());
  }

  Address peer_address() const override { return inner_->peer_address(); }
  std::span<const std::byte> channel_binding() const override { return inner_->channel_binding(); }
  bool violates_tls_policy() const override { return inner_->violates_tls_policy(); }
  void wait_for_room(std::function<void(bool)> then) override {
    inner_->wait_for_room(std::move(then));
  }
  void shut_down() override { inner_->shut_down(); }
  bool abort_handshake() override { return inner_->abort_handshake(); }

  void read_some(std::span<std::byte> into, Then then) override {
    std::size_t count = take_opened(into);
    while (const std::size_t more = open_next(into.subspan(count))) count += more;
    if (count > 0) return then(count, std::nullopt);
    if (damaged_)
      return then(0,
                  Error(ErrorCode::kDataLoss,
                        "received data failed authentication: it was changed, repeated, dropped or "
                        "inserted on the way"));
    make_room();
    inner_->read_some(
        std::span(in_.data() + end_, in_.size() - end_),
        [this, into, then = std::move(then)](std::size_t more, const std::optional<Error>& error) {
          if (error) return then(0, error);
          end_ += more;
          filled_ = end_ == in_.size();
          read_some(into, then);
        });
  }

  std::optional<std::size_t> write_some(std::span<const std::byte> bytes) override {
    std::size_t taken = 0;
    while (true) {
      if (sent_ < sealed_) {
        const auto more = inner_->write_some({out_.data() + sent_, sealed_ - sent_});
        if (!more) return std::nullopt;
        // A record's bytes count as taken once all of it has left. Until then the caller repeats
        // them.
        if (*more == 0) return taken;
        sent_ += *more;
        continue;
      }
      if (sealed_ > 0) taken += std::exchange(sealed_, 0) - kOverhead;
      sent_ = 0;
      if (taken == bytes.size()) return taken;
      const auto part =
          bytes.subspan(taken).first(std::min(kMaxPlaintextRecord, bytes.size() - taken));
      sealed_ = part.size() + kOverhead;
      out_.reserve(sealed_, 0);
      sends_.seal(part, out_.data());
    }
  }

 private:
  /// Copies the rest of a decrypted record that did not fit before.
  std::size_t take_opened(std::span<std::byte> into) {
    const std::size_t part = std::min(into.size(), opened_.size());
    std::copy_n(opened_.begin(), part, into.begin());
    opened_ = opened_.subspan(part);
    return part;
  }

  /// Decrypts the next record if it is complete. Returns the bytes written to `into`.
  std::size_t open_next(std::span<std::byte> into) {
    if (into.empty() || damaged_ || !opened_.empty() || end_ - begin_ < kOverhead) return 0;
    std::byte* const at = in_.data() + begin_;
    std::uint32_t length = 0;
    std::memcpy(&length, at, kLengthBytes);
    if (length == 0 || length > kMaxPlaintextRecord) {
      damaged_ = true;
      return 0;
    }
    const std::size_t record = length + kOverhead;
    if (end_ - begin_ < record) return 0;
    const bool fits = length <= into.size();
    if (!receives_.open({at, record}, fits ? into.data() : at + kLengthBytes)) {
      damaged_ = true;
      return 0;
    }
    begin_ += record;
    if (fits) return length;
    opened_ = {at + kLengthBytes, length};
    return take_opened(into);
  }

  /// Makes room for the rest of a partial record, and for more if the last read filled the buffer.
  void make_room() {
    if (begin_ == end_) begin_ = end_ = 0;
    std::uint32_t length = 0;
    if (end_ - begin_ >= kLengthBytes) std::memcpy(&length, in_.data() + begin_, kLengthBytes);
    const std::size_t record = length + kOverhead;
    if (begin_ + record > in_.size() || (filled_ && begin_ > 0)) {
      std::copy(in_.data() + begin_, in_.data() + end_, in_.data());
      end_ -= std::exchange(begin_, 0);
    }
    in_.reserve(filled_ ? std::min(kMaxRecord, std::max(record, in_.size() + 1)) : record, end_);
    filled_ = false;
  }

  const std::unique_ptr<ByteStream> inner_;

  // Used by the writing thread.
  CipherState sends_;
  RecordBuffer out_;        // holds one record
  std::size_t sealed_ = 0;  // bytes of the record in out_; 0: none
  std::size_t sent_ = 0;    // bytes of the record that have left

  // Used by the loop's thread.
  CipherState receives_;
  RecordBuffer in_;  // records from begin_ to end_
  std::size_t begin_ = 0, end_ = 0;
  bool filled_ = false;                // the last read filled in_
  std::span<const std::byte> opened_;  // decrypted part of in_, before begin_
  bool damaged_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> seal(std::unique_ptr<ByteStream> inner, const StreamKeys& keys,
                                 std::span<const std::byte> arrived, std::uint64_t seals_per_key) {
  return std::make_unique<EncryptedStream>(std::move(inner), keys, arrived, seals_per_key);
}

}  // namespace weft::actors
