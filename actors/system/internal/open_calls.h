#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::actors {

/// Ids of calls that have no result yet. Filled first, then emptied. Not thread-safe.
class OpenCalls final {
 public:
  /// Adds an id. Before the first contains() or remove().
  void add(std::uint64_t id) { calls_.push_back({id, true}); }
  /// Ends the filling.
  void seal() {
    std::ranges::sort(calls_, {}, &OneCall::id);
    left_ = calls_.size();
  }
  bool contains(std::uint64_t id) const {
    const auto found = std::ranges::lower_bound(calls_, id, {}, &OneCall::id);
    return found != calls_.end() && found->id == id && found->open;
  }
  /// Removes an id. Returns false if it is not there.
  bool remove(std::uint64_t id) {
    const auto found = std::ranges::lower_bound(calls_, id, {}, &OneCall::id);
    if (found == calls_.end() || found->id != id || !found->open) return false;
    found->open = false;
    --left_;
    return true;
  }
  bool empty() const { return left_ == 0; }
  std::vector<std::uint64_t> take() {
    std::vector<std::uint64_t> ids;
    for (OneCall& call : calls_)
      if (call.open) ids.push_back(call.id);
    calls_.clear();
    left_ = 0;
    return ids;
  }

 private:
  struct OneCall {
    std::uint64_t id;
    bool open;
  };
  std::vector<OneCall> calls_;
  std::size_t left_ = 0;
};

}  // namespace weft::actors
