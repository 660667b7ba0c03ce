#include "transfer/device_collective/operation_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "core/base/error.h"

namespace weft::transfer {
namespace {

/// When something happens: `turn` counts waits, so that what follows a wait comes later even if no time passes.
struct Moment {
  double seconds = 0;
  std::uint64_t turn = 0;
  friend auto operator<=>(const Moment&, const Moment&) = default;
};

struct Meeting {
  std::size_t participants = 0;
  std::size_t started = 0;
  Moment latest;  ///< Start so far.
};

class Rehearsal {
 public:
  explicit Rehearsal(std::span<const DeviceTimeline> timelines) : timelines_(timelines), devices_(timelines.size()) {
    for (const DeviceTimeline& timeline : timelines) {
      for (const TimelineStep& step : timeline.steps) {
        if (const auto* start = std::get_if<TimelineStart>(&step)) ++meetings_[start->key].participants;
      }
    }
  }

  std::vector<OperationKey> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < devices_.size(); ++i) moved = advance(i) || moved;
    }
    check_finished();
    std::vector<std::tuple<Moment, OperationKey>> sorted;
    for (const auto& [key, meeting] : meetings_) sorted.emplace_back(meeting.latest, key);
    std::sort(sorted.begin(), sorted.end());
    std::vector<OperationKey> order;
    for (const auto& [moment, key] : sorted) order.push_back(key);
    return order;
  }

 private:
  struct DeviceState {
    std::size_t next = 0;
    Moment now;
  };

  bool advance(std::size_t index) {
    DeviceState& device = devices_[index];
    const auto& steps = timelines_[index].steps;
    const std::size_t before = device.next;
    for (; device.next < steps.size(); ++device.next) {
      const TimelineStep& step = steps[device.next];
      if (const auto* work = std::get_if<TimelineWork>(&step)) {
        device.now.seconds += work->seconds;
      } else if (const auto* start = std::get_if<TimelineStart>(&step)) {
        Meeting& meeting = meetings_.at(start->key);
        ++meeting.started;
        meeting.latest = std::max(meeting.latest, device.now);
      } else {
        const Meeting* meeting = met(std::get<TimelineWait>(step).key);
        if (meeting == nullptr) break;
        device.now.seconds = std::max(device.now.seconds, meeting->latest.seconds);
        device.now.turn = std::max(device.now.turn, meeting->latest.turn) + 1;
      }
    }
    return device.next != before;
  }

  const Meeting* met(const OperationKey& key) const {
    const auto at = meetings_.find(key);
    return at != meetings_.end() && at->second.started == at->second.participants ? &at->second : nullptr;
  }

  void check_finished() const {
    std::string stuck;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i].next == timelines_[i].steps.size()) continue;
      const auto& wait = std::get<TimelineWait>(timelines_[i].steps[devices_[i].next]);
      const auto at = meetings_.find(wait.key);
      stuck += fmt::format("\n  device {} waits for {}, which {} of its {} devices have started", timelines_[i].device,
                           to_string(wait.key), at == meetings_.end() ? 0 : at->second.started,
                           at == meetings_.end() ? 0 : at->second.participants);
    }
    if (!stuck.empty()) throw_error(ErrorCode::kInternal, "the programs of a step cannot finish:{}", stuck);
  }

  std::span<const DeviceTimeline> timelines_;
  std::vector<DeviceState> devices_;
  std::map<OperationKey, Meeting> meetings_;
};

}  // namespace

std::string to_string(const OperationKey& key) {
  return key.microbatch < 0 ? fmt::format("op {}", key.op) : fmt::format("op {} microbatch {}", key.op, key.microbatch);
}

std::vector<OperationKey> total_order(std::span<const DeviceTimeline> timelines) { return Rehearsal(timelines).run(); }

std::vector<OperationKey> order_of_device(std::span<const OperationKey> order, const DeviceTimeline& timeline,
                                          const std::set<std::uint32_t>& ops) {
  std::set<OperationKey> started;
  for (const TimelineStep& step : timeline.steps) {
    if (const auto* start = std::get_if<TimelineStart>(&step); start != nullptr && ops.contains(start->key.op))
      started.insert(start->key);
  }
  std::vector<OperationKey> result;
  std::copy_if(order.begin(), order.end(), std::back_inserter(result),
               [&](const OperationKey& key) { return started.contains(key); });
  return result;
}

}  // namespace weft::transfer
