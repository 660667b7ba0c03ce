#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "transfer/wire/wire.h"
#include "transfer/wire_ucx/internal/wire_header.h"

namespace weft::transfer {

/// Accounting of eager payload on one route to a peer. Eager bytes travel with their header, and
/// the receiver must find room for them. Covers both directions, as seen from this end.
///
///   sent ───────▶ arrived ───────▶ taken      state at the sender (send(), told())
///                  └ kBuffered ── kUnbuffered ┐   notices by the receiver: kept first, then
///                  └──────── kCredit ─────────┘   taken, or taken on arrival
///
/// Bytes that are *untaken* occupy the receiver's memory; the wire bounds them. Bytes that have not
/// *arrived* share the link with all other traffic in the sockets, whatever its priority. A send is
/// far ahead while more than kMaxUnarrived of the bytes sent up to its end have not arrived. Its
/// completion is then delayed here. So bytes that no receiver needs yet do not delay other
/// messages.
///
/// A receiver sends its notices in steps, so that they are few compared to messages. A value.
/// Owner's thread only.
class EagerFlowControl final {
 public:
  /// Bytes per notice. Small compared to kMaxUnarrived: otherwise senders would wait for notices of
  /// bytes taken long ago.
  static constexpr std::size_t kStep = 32 * 1024;
  /// Limit of unarrived bytes. At least two steps (one of taken and one of kept bytes): otherwise
  /// the completion of the last sends would never be reported.
  static constexpr std::size_t kMaxUnarrived = 64 * 1024;

  /// `step`: bytes per notice; less than kStep if a peer has several routes.
  explicit EagerFlowControl(std::size_t step = kStep) : step_(step) {}

  // ---- bytes that this device sends ----

  /// Records that a message of `bytes` is handed to the network. Returns its end as an offset from
  /// the first byte ever sent.
  std::uint64_t send(std::size_t bytes) { return sent_ += bytes; }
  std::size_t untaken() const { return sent_ - taken_; }
  bool exceeds_window(std::uint64_t end) const { return end > arrived_ + kMaxUnarrived; }
  /// Delays the completion of the send that ends at `end`. Called in ascending order of ends.
  void delay_completion(std::uint64_t end, Token token) { waiting_.push_back({token, end}); }
  /// Handles the peer's notice (kCredit, kBuffered, kUnbuffered) of `bytes`. Clamps them to the
  /// bytes sent, since the peer is not trusted. Returns the sends that complete.
  std::vector<Token> told(WireHeader::Kind kind, std::uint64_t bytes);
  /// Returns all delayed sends, because the connection has ended.
  std::vector<Token> take_delayed();

  // ---- bytes that this device receives ----

  /// Records `bytes` that arrived and were taken (kCredit), arrived and are kept (kBuffered), or
  /// were kept and are now taken (kUnbuffered). Returns the number of bytes to report to the peer
  /// under that kind, if a step is full.
  std::optional<std::size_t> count(WireHeader::Kind kind, std::size_t bytes);

 private:
  struct WaitingMessage {
    Token token;
    std::uint64_t end;
  };
  std::size_t step_;
  std::uint64_t sent_ = 0, arrived_ = 0, taken_ = 0;
  std::deque<WaitingMessage> waiting_;
  std::size_t untold_credit_ = 0, untold_arrived_ = 0, untold_left_ = 0;
};

}  // namespace weft::transfer
