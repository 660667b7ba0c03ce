#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace weft::transfer {

/// Decides which streams of a device send over the network. At most `max_streams` send at a time,
/// or as many as the plan of their transfer says (DevicePart::egress_slots). Among the streams
/// that could send, the lowest (transfer, flow) go first. More streams at once would only make all
/// of them finish late.
///
/// A stream *moves* while one of its chunks is in flight to a receiver that takes it. A chunk that
/// its receiver cannot take yet (ChunkHeader::kNotReady) is parked and does not count. A stream
/// *wants* to send only if it could send at this instant. It takes part while it moves or wants.
/// The first `max_streams` that take part may send; the others only let their chunks in flight end.
///
/// This order cannot deadlock. A moving chunk ends without waiting for another device, because its
/// receiver has not refused it. So every slot becomes free again and goes to the lowest stream that
/// wants one. Everything that could be sent without the limit is sent with it, only later. A
/// receiver that refuses a chunk waits for something that holds no slot here: its own start, room
/// to stage, or the terms of a sum. No common order among devices is needed for this. The common
/// order (flow ids are equal everywhere) serves speed: all devices work on the same flows first.
///
/// A value with no reference to the streams. Transfer thread only.
class EgressOrder final {
 public:
  explicit EgressOrder(std::size_t max_streams) : max_streams_(max_streams) {}
  /// Sets the limit of transfers that have none of their own. After a decrease, more streams may
  /// move for a while.
  void set_max_streams(std::size_t max_streams) { max_streams_ = max_streams; }

  struct Key {
    /// Position of the transfer in the order of starts. Low-priority transfers come after all
    /// others.
    std::uint64_t transfer = 0;
    std::uint32_t stream = 0;  ///< Index in the device's part, ascending by flow.
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  /// Sets a stream's state. A stream that neither wants nor moves takes no part. `places`: number
  /// of streams that its transfer lets send at a time; 0: the limit of set_max_streams().
  void update(const Key& key, bool wants, bool moves, std::size_t places = 0);
  /// Returns a stream that may send a chunk now. The caller sends and then calls update().
  std::optional<Key> next() const;
  /// Removes all streams of a transfer.
  void remove(std::uint64_t transfer);
  std::size_t num_moving() const { return moving_; }

 private:
  /// Returns the largest limit of any stream that takes part.
  std::size_t max_limit() const {
    return places_.empty() ? max_streams_ : std::max(max_streams_, places_.rbegin()->first);
  }
  void count_places(std::size_t places, bool takes_part);

  struct State {
    bool wants, moves;
    std::size_t places;
  };
  std::size_t max_streams_;
  // per limit, the number of streams with it that take part
  std::map<std::size_t, std::size_t> places_;
  std::map<Key, State> streams_;  // streams that take part
  std::size_t moving_ = 0;
};

}  // namespace weft::transfer
