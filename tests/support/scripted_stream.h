#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "actors/net/network.h"

namespace weft::test {

using Bytes = std::vector<std::byte>;

/// Stream whose other side is a test. Single-threaded.
class ScriptedStream final : public actors::ByteStream {
 public:
  actors::Address peer_address() const override { return {"127.0.0.1", 1}; }
  void read_some(std::span<std::byte> into,
                 std::function<void(std::size_t, const std::optional<Error>&)> then) override {
    into_ = into;
    then_ = std::move(then);
    serve();
  }
  std::optional<std::size_t> write_some(std::span<const std::byte> bytes) override {
    const std::size_t count = std::min(bytes.size(), room);
    said.insert(said.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    room -= count;
    return count;
  }
  void wait_for_room(std::function<void(bool)> then) override { then(true); }
  void shut_down() override {}

  void bring(const Bytes& bytes) {
    coming_.insert(coming_.end(), bytes.begin(), bytes.end());
    serve();
  }
  void end() {
    ended_ = true;
    serve();
  }

  Bytes said;
  std::size_t room = std::size_t(-1);
  std::size_t piece = std::size_t(-1);  // most bytes per read

 private:
  /// Loops, because callbacks start the next read.
  void serve() {
    if (std::exchange(serving_, true)) return;
    while (then_ && (ended_ || !coming_.empty())) {
      const auto then = std::exchange(then_, nullptr);
      const std::size_t count = std::min({into_.size(), coming_.size(), piece});
      if (count == 0) {
        then(0, Error(ErrorCode::kUnavailable, "connection closed by the other side"));
        break;
      }
      std::copy_n(coming_.begin(), count, into_.begin());
      coming_.erase(coming_.begin(), coming_.begin() + static_cast<std::ptrdiff_t>(count));
      then(count, std::nullopt);
    }
    serving_ = false;
  }

  std::deque<std::byte> coming_;
  bool ended_ = false;
  bool serving_ = false;
  std::span<std::byte> into_;
  std::function<void(std::size_t, const std::optional<Error>&)> then_;
};

}  // namespace weft::test
