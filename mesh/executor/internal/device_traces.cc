#include "mesh/executor/internal/device_traces.h"

#include <iterator>
#include <limits>

#include "core/base/clock.h"

namespace weft::mesh {
namespace {

/// Measures the driver's clock minus the device's, from the fastest of five round trips.
std::int64_t measure_clock(const actors::ActorRef<DeviceActor>& actor) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max(), offset = 0;
  for (int i = 0; i < 5; ++i) {
    const std::int64_t before = SteadyClock().now().time_since_epoch().count();
    const std::int64_t there = actor.call<&DeviceActor::clock>().get();
    const std::int64_t after = SteadyClock().now().time_since_epoch().count();
    if (after - before >= best) continue;
    best = after - before;
    offset = (before + after) / 2 - there;
  }
  return offset;
}

}  // namespace

void DeviceTraces::measure_clocks(const DeviceGroup& devices) {
  clock_offsets_.clear();
  for (std::uint32_t i = 0; i < devices.size(); ++i)
    clock_offsets_.push_back(measure_clock(devices.at(transfer::DeviceId(i))));
}

void DeviceTraces::add(std::vector<StepReport>& reports, const TrainingPlan& plan) {
  if (reports.empty() || reports.front().trace.empty()) return;
  if (traces_.empty()) {
    for (const Program& program : plan.train.programs)
      traces_.push_back(
          {program.device_name + " on " + plan.hosts[plan.topology.host_of(program.device).value()],
           clock_offsets_[traces_.size()],
           {},
           0});
  }
  for (std::size_t i = 0; i < reports.size(); ++i)
    std::move(reports[i].trace.begin(), reports[i].trace.end(),
              std::back_inserter(traces_[i].events));
}

}  // namespace weft::mesh
