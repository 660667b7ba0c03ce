#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <variant>

#include "transfer/wire/wire_event.h"

namespace weft::transfer {

/// Events of a UcxWire that wait for its next progress(). Owner's thread only.
class WireEventQueue final {
 public:
  using Event = std::variant<SendFinished, ReceiveFinished, PeerLost>;

  void push(Event event) {
    if (!closed_) events_.push_back(std::move(event));
  }
  bool empty() const { return events_.empty(); }
  /// Reports all events, also those that are added meanwhile. Returns their number.
  std::size_t dispatch(WireEvents& owner) {
    std::size_t count = 0;
    for (; !events_.empty(); ++count) {
      const Event next = std::move(events_.front());
      events_.pop_front();
      std::visit([&](const auto& event) { dispatch_event(owner, event); }, next);
    }
    return count;
  }
  /// Drops all later events: the wire ends.
  void close() { closed_ = true; }
  bool is_closed() const { return closed_; }

 private:
  std::deque<Event> events_;
  bool closed_ = false;
};

}  // namespace weft::transfer
