#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "core/base/clock.h"
#include "transfer/execute/active_work.h"
#include "transfer/execute/internal/egress_order.h"
#include "transfer/execute/rate_meter.h"

namespace weft::transfer {

/// Lets the streams of all work send over the network, each in its turn (EgressOrder), and measures
/// how fast the network takes their bytes. Transfer thread only.
class EgressScheduler final {
 public:
  explicit EgressScheduler(std::size_t max_streams) : order_(max_streams) {}
  void set_max_streams(std::size_t max_streams) { order_.set_max_streams(max_streams); }

  /// Returns the priority of work that starts now: after all earlier work of its class.
  std::uint64_t next_order(bool low_priority) {
    return next_order_++ | (low_priority ? kLowPriority : 0);
  }
  void add(ActiveWork& work) { work_.emplace(work.order(), &work); }
  /// Removes work that ends. Its streams must not want or move, or remove_streams() was called.
  void remove(const ActiveWork& work) { work_.erase(work.order()); }
  /// Takes the turns of failed work away.
  void remove_streams(const ActiveWork& work);
  /// Updates a stream's state, and sends what may be sent now, of any stream.
  void schedule(const ActiveWork& work, std::uint32_t stream);

  /// Records that a chunk of `bytes` has left to the network; 0: it has failed.
  void chunk_left(std::uint64_t bytes, TimePoint now) {
    rate_.completed(bytes, order_.num_moving() > 0, now);
  }
  /// Records that a receiver holds a chunk, so that perhaps nothing moves any more.
  void chunk_held() {
    if (order_.num_moving() == 0) rate_.idle();
  }
  /// Returns bytes per second; 0: unknown.
  double rate() const { return rate_.rate().value_or(0); }
  /// Returns the peak number of streams that sent at once.
  std::size_t peak_streams() const { return peak_streams_; }

 private:
  /// Order bit that puts low-priority transfers after all others.
  static constexpr std::uint64_t kLowPriority = std::uint64_t{1} << 63;
  void update(const ActiveWork& work, std::uint32_t stream);
  void send_eligible_streams();

  EgressOrder order_;
  RateMeter rate_;
  std::uint64_t next_order_ = 0;
  std::unordered_map<std::uint64_t, ActiveWork*> work_;  // by order
  std::size_t peak_streams_ = 0;
};

}  // namespace weft::transfer
