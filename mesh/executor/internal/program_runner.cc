#include "mesh/executor/internal/program_runner.h"

#include <fmt/format.h>

#include <chrono>

namespace weft::mesh {
namespace {

/// Time within which a possibly stuck device must report its position.
constexpr Nanoseconds kProgressAnswerTimeout = std::chrono::seconds(2);

/// Sets a flag during its life.
struct RaisedFlag {
  explicit RaisedFlag(std::atomic<bool>& raised) : flag(raised) { flag = true; }
  RaisedFlag(const RaisedFlag&) = delete;
  RaisedFlag& operator=(const RaisedFlag&) = delete;
  ~RaisedFlag() { flag = false; }
  std::atomic<bool>& flag;
};

}  // namespace

StepRequest ProgramRunner::request(const std::string& program) {
  StepRequest request;
  request.program = program;
  return number(std::move(request));
}

actors::Future<std::vector<StepReport>> ProgramRunner::start(const StepRequest& request) const {
  return devices_.all().within(actors::kNoDeadline).call<&DeviceActor::run>(request);
}

std::vector<StepReport> ProgramRunner::run(const StepRequest& request, std::string what,
                                           const std::vector<Program>& programs) {
  const RaisedFlag running(running_);
  StallMonitor progress = watch(request, std::move(what), &programs);
  return wait(start(request), std::move(progress));
}

void ProgramRunner::run(const std::vector<Program>& programs, std::string what) {
  run(request(programs.front().name), std::move(what), programs);
}

void ProgramRunner::run_with_driver(const std::vector<Program>& programs,
                                    CheckpointEndpoint& driver) {
  const StepRequest request = this->request(programs.front().name);
  auto reports = start(request);
  StallMonitor progress =
      watch(request, fmt::format("'{}' of a checkpoint", request.program), &programs, &driver);
  move_with_driver(driver, request, std::move(reports), progress.interval(),
                   [&] { progress.poll_devices(); });
}

StallMonitor ProgramRunner::watch(const StepRequest& request, std::string what,
                                  const std::vector<Program>* programs,
                                  const CheckpointEndpoint* driver) const {
  StallMonitor::Devices devices;
  devices.names = devices_.names_with_places();
  devices.names.emplace_back("the driver");
  devices.programs = programs;
  devices.ask = [this] {
    return devices_.all().within(kProgressAnswerTimeout).reports<DeviceProgress>();
  };
  devices.on_stall = [this](std::size_t device, const std::string& line) {
    const std::size_t named = device < devices_.size() ? device : 0;
    devices_.report(transfer::DeviceId(named), "no progress", line);
  };
  if (driver != nullptr) devices.driver = [driver] { return driver->progress(); };
  return {limits_, request.execution_number, std::move(what), std::move(devices), clock_};
}

}  // namespace weft::mesh
