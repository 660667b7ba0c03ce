#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace weft::transfer {

/// Decides which streams of a device send over the network: at most `max_streams` at a time, or as
/// many as the plan of their transfer says (DevicePart::egress_places), and of those that could,
/// the lowest first, by (transfer, flow). More at once would only make
/// all of them finish late.
///
/// A stream *moves* while one of its chunks is on its way to a receiver that takes it. A chunk
/// whose receiver has said that it cannot take it yet (ChunkHeader::kHeld) is parked: it does not
/// count. A stream takes part while it moves or *wants* to send, and it wants only if it could send
/// this instant. The first `max_streams` of those that take part may send; the others let what
/// moves end and make room.
///
/// No deadlock can come from this order. A moving chunk ends without waiting for anybody: its
/// receiver has not refused it. So moving streams end their chunks, every place comes free again
/// and goes to the lowest stream that wants one, and whatever could be sent without the limit is
/// sent with it, only later. A receiver that refuses a chunk waits for something else (its own
/// start, room to stage, the terms of a sum), which holds no place here. No order among devices is
/// needed for this; the common one (flow ids are equal everywhere) is there for speed: all devices
/// work on the same flows first.
///
/// A value with no reference to what it orders. Transfer thread only.
class EgressOrder final {
 public:
  explicit EgressOrder(std::size_t max_streams) : max_streams_(max_streams) {}
  /// Of transfers that name no number of their own. More than that may move for a while after it
  /// has become smaller.
  void set_max_streams(std::size_t max_streams) { max_streams_ = max_streams; }

  struct Key {
    /// Counts transfers in the order of their start; those that stand back come behind all others.
    std::uint64_t transfer = 0;
    std::uint32_t stream = 0;  ///< Of the device's part: ascending by flow.
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  /// What a stream wants and does now. Neither: it takes no part. `places`: how many its transfer
  /// lets send at a time; 0: as many as any.
  void update(const Key& key, bool wants, bool moves, std::size_t places = 0);
  /// A stream that may send a chunk now; the caller sends and then tells update().
  std::optional<Key> next() const;
  /// Forgets all streams of a transfer.
  void remove(std::uint64_t transfer);
  std::size_t num_moving() const { return moving_; }

 private:
  /// The most places that any stream that takes part has.
  std::size_t most_places() const {
    return places_.empty() ? max_streams_ : std::max(max_streams_, places_.rbegin()->first);
  }
  void count_places(std::size_t places, bool takes_part);

  struct State {
    bool wants, moves;
    std::size_t places;
  };
  std::size_t max_streams_;
  // of those that take part: how many streams name so many
  std::map<std::size_t, std::size_t> places_;
  std::map<Key, State> streams_;  // those that take part
  std::size_t moving_ = 0;
};

}  // namespace weft::transfer
