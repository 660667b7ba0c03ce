#include "apps/train/in_process_runner.h"

#include <fmt/format.h>

#include <iterator>

namespace weft::apps {

InProcessRunner::InProcessRunner(const mesh::TrainingPlan& plan, mesh::BatchSource& batches,
                                 std::uint64_t seed)
    : plan_(plan), training_(plan, batches, seed) {
  for (const mesh::Program& program : plan.train.programs)
    traces_.push_back(
        {.name = fmt::format("{} on {}", program.device_name,
                             plan.hosts[plan.topology.host_of(program.device).value()])});
}

mesh::StepResult InProcessRunner::run(const mesh::StepRequest& request) {
  const std::lock_guard lock(mutex_);
  mesh::StepRequest counted = request;
  counted.run = ++runs_;
  std::vector<mesh::StepReport> reports = training_.run_on_devices(counted);
  for (std::size_t i = 0; i < reports.size() && i < traces_.size(); ++i)
    std::move(reports[i].trace.begin(), reports[i].trace.end(),
              std::back_inserter(traces_[i].events));
  mesh::StepResult result = mesh::combine(reports);
  if (!said_what_auto_does_ && plan_.layout.searches()) {
    said_what_auto_does_ = true;
    result.note = fmt::format(
        "schedule auto: {} stays, as all devices take turns in one thread here and no order is "
        "faster",
        plan_.schedule.name);
  }
  return result;
}

void InProcessRunner::move(const std::string& program) {
  const std::lock_guard lock(mutex_);
  mesh::StepRequest request;
  request.program = program;
  request.run = ++runs_;
  training_.run(request);
}

std::vector<DeviceTrace> InProcessRunner::take_traces() {
  std::vector<DeviceTrace> taken = traces_;
  for (DeviceTrace& trace : traces_) trace.events.clear();
  return taken;
}

}  // namespace weft::apps
