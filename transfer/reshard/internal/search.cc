#include <algorithm>

#include "transfer/reshard/internal/host_schedule.h"

namespace weft::transfer::internal {
namespace {

/// Depth-first search over partial schedules. Lives for one call.
class Search {
 public:
  Search(const std::vector<ScheduleItem>& units, std::size_t num_hosts,
         std::vector<HostAssignment> best, std::uint64_t nodes)
      : units_(units),
        free_(num_hosts),
        work_(num_hosts),
        is_sender_(num_hosts),
        placed_(units.size()),
        best_(std::move(best)),
        nodes_(nodes) {
    best_end_ = makespan(units, best_, num_hosts);
    for (const ScheduleItem& unit : units) {
      for (const std::uint32_t host : unit.receivers) work_[host] += unit.bytes;
      if (unit.senders.size() == 1) work_[unit.senders.front()] += unit.bytes;
      for (const std::uint32_t host : unit.senders) is_sender_[host] = true;
      left_ += unit.bytes;
    }
  }

  std::vector<HostAssignment> run() {
    visit(0);
    return std::move(best_);
  }

 private:
  /// Returns a lower bound on the end of any continuation. Every host must finish the work that
  /// only it can do, and the senders together all remaining work.
  std::uint64_t bound(std::uint64_t end) const {
    std::uint64_t least = end, senders_free = left_, senders = 0;
    for (std::size_t host = 0; host < free_.size(); ++host) {
      least = std::max(least, free_[host] + work_[host]);
      if (!is_sender_[host]) continue;
      senders_free += free_[host];
      ++senders;
    }
    return left_ == 0 ? least : std::max(least, (senders_free + senders - 1) / senders);
  }

  void visit(std::uint64_t end) {
    if (nodes_ == 0 || bound(end) >= best_end_) return;
    if (path_.size() == units_.size()) {
      best_ = path_;
      best_end_ = end;
      return;
    }
    for (std::uint32_t i = 0; i < units_.size() && nodes_ > 0; ++i) {
      if (placed_[i] || has_equal_predecessor(i)) continue;
      for (const std::uint32_t sender : units_[i].senders) place(i, sender, end);
    }
  }

  /// Returns true if an equal unit with a smaller index is not placed. Other orders of equal units
  /// give the same schedule.
  bool has_equal_predecessor(std::uint32_t i) const {
    if (i == 0 || placed_[i - 1]) return false;
    const ScheduleItem &a = units_[i - 1], &b = units_[i];
    return a.bytes == b.bytes && a.senders == b.senders && a.receivers == b.receivers;
  }

  void place(std::uint32_t i, std::uint32_t sender, std::uint64_t end) {
    if (nodes_ == 0) return;
    --nodes_;
    const ScheduleItem& unit = units_[i];
    const std::vector<std::uint64_t> free = free_;
    std::uint64_t unit_end = free_[sender];
    for (const std::uint32_t host : unit.receivers) unit_end = std::max(unit_end, free_[host]);
    unit_end += unit.bytes;
    free_[sender] = unit_end;
    for (const std::uint32_t host : unit.receivers) {
      free_[host] = unit_end;
      work_[host] -= unit.bytes;
    }
    if (unit.senders.size() == 1) work_[sender] -= unit.bytes;
    left_ -= unit.bytes;
    placed_[i] = true;
    path_.push_back({i, sender});
    visit(std::max(end, unit_end));
    path_.pop_back();
    placed_[i] = false;
    left_ += unit.bytes;
    if (unit.senders.size() == 1) work_[sender] += unit.bytes;
    for (const std::uint32_t host : unit.receivers) work_[host] += unit.bytes;
    free_ = free;
  }

  const std::vector<ScheduleItem>& units_;
  std::vector<std::uint64_t> free_;  ///< Per host, the time at which it is free.
  /// Per host, remaining bytes that it alone can receive or send.
  std::vector<std::uint64_t> work_;
  std::vector<bool> is_sender_;
  std::uint64_t left_ = 0;
  std::vector<bool> placed_;
  std::vector<HostAssignment> path_, best_;
  std::uint64_t best_end_ = 0;
  std::uint64_t nodes_;
};

}  // namespace

std::vector<HostAssignment> search_order(const std::vector<ScheduleItem>& units,
                                         std::size_t num_hosts, std::vector<HostAssignment> best,
                                         std::uint64_t nodes) {
  if (units.empty()) return best;
  return Search(units, num_hosts, std::move(best), nodes).run();
}

}  // namespace weft::transfer::internal
