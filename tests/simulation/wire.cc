#include "tests/simulation/wire.h"

#include <algorithm>

namespace weft::simulation {
namespace {

constexpr std::size_t kWindow = 256u << 10;
/// Delays of TCP's first and later retransmissions.
constexpr Nanoseconds kFirstAgain = std::chrono::milliseconds(200);
constexpr Nanoseconds kLastAgain = std::chrono::seconds(3);

const Error& closed() {
  static const Error error(ErrorCode::kUnavailable, "connection closed by the other side");
  return error;
}

}  // namespace

std::size_t Wire::room(int side) const {
  const End& other = ends_[1 - side];
  std::size_t used = other.arrived.size();
  for (const Segment& segment : other.coming) used += segment.bytes.size();
  return used >= kWindow ? 0 : kWindow - used;
}

std::optional<std::size_t> Wire::write(int side, std::span<const std::byte> bytes) {
  End& self = ends_[side];
  if (self.shut || self.reset) return std::nullopt;
  const std::size_t taken = std::min(bytes.size(), room(side));
  // Sometimes splits the bytes, because a stream has no message boundaries.
  std::size_t sent = 0;
  while (sent < taken) {
    std::size_t part = taken - sent;
    if (world_.chance(0.1)) part = world_.random(1, part);
    const auto piece = bytes.subspan(sent, part);
    send(1 - side, {{}, {piece.begin(), piece.end()}, false});
    sent += part;
  }
  return taken;
}

void Wire::send(int to, Segment segment) {
  End& end = ends_[to];
  segment.arrives = world_.time() + world_.latency(ends_[1 - to].side.host, end.side.host);
  if (world_.loses()) segment.arrives += kFirstAgain;
  if (!end.coming.empty()) segment.arrives = std::max(segment.arrives, end.coming.back().arrives);
  end.coming.push_back(std::move(segment));
  set_delivery(to);
}

void Wire::set_delivery(int to) {
  End& end = ends_[to];
  if (end.coming.empty() || std::exchange(end.delivery_set, true)) return;
  world_.at(end.coming.front().arrives,
            [self = shared_from_this(), to] { self->deliver(to, kFirstAgain); });
}

void Wire::deliver(int to, Nanoseconds again_after) {
  End& end = ends_[to];
  const End& from = ends_[1 - to];
  if (world_.is_cut(from.side.host, end.side.host)) {
    world_.after(again_after, [self = shared_from_this(), to, again_after] {
      self->deliver(to, std::min(2 * again_after, kLastAgain));
    });
    return;
  }
  end.delivery_set = false;
  if (end.coming.empty()) return;
  Segment segment = std::move(end.coming.front());
  end.coming.pop_front();
  if (end.gone) {
    // The socket's process has ended, so its system replies with a reset.
    if (!segment.end && !from.reset) {
      ends_[1 - to].reset = true;
      serve_reader(1 - to);
      serve_room(1 - to);
    }
  } else if (!end.shut) {
    end.arrived.insert(end.arrived.end(), segment.bytes.begin(), segment.bytes.end());
    end.end_arrived = end.end_arrived || segment.end;
    serve_reader(to);
  }
  set_delivery(to);
  serve_room(1 - to);
}

void Wire::read(int side, std::span<std::byte> into, Read then) {
  ends_[side].into = into;
  ends_[side].reader = std::move(then);
  serve_reader(side);
}

void Wire::serve_reader(int side) {
  End& end = ends_[side];
  if (!end.reader) return;
  if (end.shut || end.reset || (end.arrived.empty() && end.end_arrived)) {
    end.side.loop->add([then = std::exchange(end.reader, nullptr)] { then(0, closed()); });
    return;
  }
  if (end.arrived.empty()) return;
  const std::size_t count = std::min(end.arrived.size(), end.into.size());
  std::copy_n(end.arrived.begin(), count, end.into.begin());
  end.arrived.erase(end.arrived.begin(), end.arrived.begin() + count);
  end.side.loop->add(
      [then = std::exchange(end.reader, nullptr), count] { then(count, std::nullopt); });
  serve_room(1 - side);
}

void Wire::wait_for_room(int side, std::function<void(bool)> then) {
  ends_[side].room_waiter = std::move(then);
  serve_room(side);
}

void Wire::serve_room(int side) {
  End& end = ends_[side];
  if (!end.room_waiter) return;
  const bool never = end.shut || end.reset;
  if (!never && room(side) == 0) return;
  end.side.loop->add([then = std::exchange(end.room_waiter, nullptr), never] { then(!never); });
}

void Wire::shut_down(int side) {
  End& end = ends_[side];
  if (std::exchange(end.shut, true)) return;
  end.arrived.clear();
  send(1 - side, {{}, {}, true});
  serve_reader(side);
  serve_room(side);
}

void Wire::process_ended(ProcessNumber process) {
  for (int side = 0; side < 2; ++side) {
    End& end = ends_[side];
    if (end.side.process != process || std::exchange(end.gone, true)) continue;
    end.reader = nullptr;
    end.room_waiter = nullptr;
    end.arrived.clear();
    if (!std::exchange(end.shut, true)) send(1 - side, {{}, {}, true});
  }
}

}  // namespace weft::simulation
