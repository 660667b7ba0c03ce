#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "transfer/wire/wire.h"
#include "transfer/wire_ucx/internal/prefix.h"

namespace weft::transfer {

/// The books of eager payload over one way of a peer: bytes that travel with their header and that
/// the receiver must find room for. Both directions, each seen from this end.
///
///   sent ───────▶ arrived ───────▶ taken      what the sender knows (send(), told())
///                  └ kArrived ────── kLeft ┐   what the receiver tells: kept a while, then taken,
///                  └────────── kCredit ────┘   or taken as they came
///
/// *Untaken* bytes fill the receiver's memory: the wire bounds them. Those that have not *arrived*
/// share the link with all else in the sockets, whatever should go first: a send is called far
/// ahead while more than kFarAhead of what was sent before its end is still on its way, and waits
/// here to be told to be finished. So bytes that nobody wants yet hold up nobody.
///
/// A receiver tells in steps, so that credits are few beside messages. A value. Owner's thread
/// only.
class EagerLedger final {
 public:
  /// Small beside kFarAhead, or senders would wait for the credit of what has long been taken.
  static constexpr std::size_t kStep = 32 * 1024;
  /// Not less than two steps (of what was taken and what is kept), or the last messages would never
  /// be told.
  static constexpr std::size_t kFarAhead = 64 * 1024;

  /// `step`: how many bytes are told at once; less than kStep where a peer is reached in several
  /// ways.
  explicit EagerLedger(std::size_t step = kStep) : step_(step) {}

  // ---- of what this device sends ----

  /// A message of `bytes` is handed to the network. Returns its end, counted from the first byte
  /// ever sent.
  std::uint64_t send(std::size_t bytes) { return sent_ += bytes; }
  std::size_t untaken() const { return sent_ - taken_; }
  bool is_far_ahead(std::uint64_t end) const { return end > arrived_ + kFarAhead; }
  /// The send that ends there is over, but for being told; in the order of their ends.
  void wait_for(std::uint64_t end, Token token) { waiting_.push_back({token, end}); }
  /// The peer told (kCredit, kArrived, kLeft) of `bytes`. More than were sent count as all: a peer
  /// is not trusted with that. Returns the sends that need not wait any longer.
  std::vector<Token> told(Prefix::Kind kind, std::uint64_t bytes);
  /// All sends that wait: the connection has ended.
  std::vector<Token> abandon();

  // ---- of what this device receives ----

  /// `bytes` have come and are taken (kCredit), have come and stay (kArrived), or were told to have
  /// come and are taken now (kLeft). Returns how many bytes to tell the peer under that kind, if it
  /// is time to.
  std::optional<std::size_t> count(Prefix::Kind kind, std::size_t bytes);

 private:
  struct Waiting {
    Token token;
    std::uint64_t end;
  };
  std::size_t step_;
  std::uint64_t sent_ = 0, arrived_ = 0, taken_ = 0;
  std::deque<Waiting> waiting_;
  std::size_t untold_credit_ = 0, untold_arrived_ = 0, untold_left_ = 0;
};

}  // namespace weft::transfer
