#include "actors/cluster/repeated_stops.h"

#include <chrono>

namespace weft::actors {
namespace {

/// Time limit of an attempt. Handlers that are cancelled have 10 s to end.
constexpr Nanoseconds kStopWithin = std::chrono::seconds(15);

}  // namespace

void RepeatedStops::add(const ProcessRef& process, const MeshKey& mesh) {
  {
    const std::lock_guard lock(mutex_);
    stops_.push_back({process, mesh, SteadyClock().now() + kGiveUpAfter, nullptr});
    if (stops_.size() > 1) return;  // the timer runs
  }
  repeat_later();
}

std::size_t RepeatedStops::size() const {
  const std::lock_guard lock(mutex_);
  return stops_.size();
}

void RepeatedStops::repeat_later() {
  system_.run_after(kRepeatAfter,
                    [ear = ear_] { ear.tell([](RepeatedStops& stops) { stops.repeat(); }); });
}

bool RepeatedStops::is_needed(const Stop& stop, TimePoint now) const {
  if (!stop.call || !stop.call->done()) return true;
  if (!stop.call->error()) return false;
  if (now < stop.give_up) return true;
  system_.options().log.warning("{} has not confirmed the end of {} (epoch {}): {}",
                                stop.process.name, stop.mesh.name, stop.mesh.epoch,
                                stop.call->error()->message());
  return false;
}

void RepeatedStops::repeat() {
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = SteadyClock().now();
    std::erase_if(stops_, [&](const Stop& stop) { return !is_needed(stop, now); });
    for (Stop& stop : stops_)
      if (!stop.call || stop.call->done())
        stop.call =
            system_.stop_actors_of(stop.process, stop.mesh.name, stop.mesh.epoch, kStopWithin);
    if (stops_.empty()) return;
  }
  repeat_later();
}

}  // namespace weft::actors
