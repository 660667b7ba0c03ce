#pragma once

#include <array>
#include <deque>
#include <memory>

#include "actors/net/network.h"
#include "tests/simulation/cluster_world.h"
#include "tests/simulation/task_queue.h"

namespace weft::simulation {

/// TCP connection between two processes. Each direction has ordered bytes, a window, a latency,
/// retransmitted segments, and an end.
class Wire final : public std::enable_shared_from_this<Wire> {
 public:
  struct Side {
    ProcessNumber process = 0;
    int host = 0;
    actors::Address address;
    std::shared_ptr<TaskQueue> loop;
  };
  Wire(ClusterWorld& world, Side one, Side other) : world_(world) {
    ends_[0].side = std::move(one);
    ends_[1].side = std::move(other);
  }

  using Read = std::function<void(std::size_t, const std::optional<Error>&)>;
  void read(int side, std::span<std::byte> into, Read then);
  std::optional<std::size_t> write(int side, std::span<const std::byte> bytes);
  void wait_for_room(int side, std::function<void(bool)> then);
  void shut_down(int side);
  actors::Address peer_address(int side) const { return ends_[1 - side].side.address; }
  /// Closes the sockets of a process that has ended.
  void process_ended(ProcessNumber process);

 private:
  struct Segment {
    TimePoint arrives;
    std::vector<std::byte> bytes;
    bool end = false;
  };
  struct End {
    Side side;
    bool shut = false;         // this side has shut down
    bool gone = false;         // this side's process has ended
    bool reset = false;        // the other side's process has ended and its system has sent a reset
    bool end_arrived = false;  // the other side has shut down
    std::deque<std::byte> arrived;
    std::deque<Segment> coming;
    bool delivery_set = false;
    std::span<std::byte> into;
    Read reader;
    std::function<void(bool)> room_waiter;
  };
  void send(int to, Segment segment);
  void set_delivery(int to);
  void deliver(int to, Nanoseconds again_after);
  void serve_reader(int side);
  void serve_room(int side);
  std::size_t room(int side) const;

  ClusterWorld& world_;
  std::array<End, 2> ends_;
};

/// Stream at one side of a wire.
class WireStream final : public actors::ByteStream {
 public:
  WireStream(std::shared_ptr<Wire> wire, int side) : wire_(std::move(wire)), side_(side) {}
  ~WireStream() override { wire_->shut_down(side_); }
  actors::Address peer_address() const override { return wire_->peer_address(side_); }
  void read_some(std::span<std::byte> into, Wire::Read then) override {
    wire_->read(side_, into, std::move(then));
  }
  std::optional<std::size_t> write_some(std::span<const std::byte> bytes) override {
    return wire_->write(side_, bytes);
  }
  void wait_for_room(std::function<void(bool)> then) override {
    wire_->wait_for_room(side_, std::move(then));
  }
  void shut_down() override { wire_->shut_down(side_); }

 private:
  const std::shared_ptr<Wire> wire_;
  const int side_;
};

}  // namespace weft::simulation
