#include "mesh/executor/device_actor.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/base/units.h"
#include "mesh/executor/device_activity.h"
#include "transfer/wire_ucx/ucx_wire.h"

namespace weft::mesh {
namespace {

/// Interval at which running device collectives are polled.
constexpr Nanoseconds kPoll = std::chrono::milliseconds(100);

}  // namespace

DeviceActor::DeviceActor(actors::Context& context, std::unique_ptr<BatchSource> batches,
                         Hardware hardware)
    : batches_(std::move(batches)),
      hardware_(std::move(hardware)),
      wakeup_(context.make_wakeup()),
      beside_wakeup_(context.make_wakeup()),
      name_(context.name()),
      log_(context.log()) {
  context.on_report([board = board_] { return board->read(SteadyClock().now()); });
  context.on_activity([board = board_] { return device_activity(*board, SteadyClock().now()); });
}

DeviceEngine& DeviceActor::engine() {
  if (!engine_) throw_error(ErrorCode::kFailedPrecondition, "call open() first");
  return *engine_;
}

std::vector<std::byte> DeviceActor::open(DeviceSetup setup) {
  const InHandler inside(*board_, "open");
  if (engine_) engine_->move_to_epoch(setup);
  else engine_.emplace(setup, *batches_, hardware_, board_, log_);
  log_.info("{}: device {} on host {} of the run: {}", name_, setup.data.device, setup.data.host,
            engine_->description());
  return engine_->address();
}

void DeviceActor::connect(const std::vector<transfer::PeerAddress>& peers) {
  engine().connect(peers);
}

transfer::DeviceCapabilities DeviceActor::place() {
  const transfer::DeviceCapabilities& place = engine().place();
  if (place.is_gpu && place.library.empty())
    log_.warning("{}: transfers to other GPUs go through host memory: {}", name_,
                 place.library_error);
  else if (place.is_gpu) log_.info("{}: reaches other GPUs by {}", name_, place.library);
  return place;
}

std::vector<transfer::CommunicatorId> DeviceActor::make_ids(
    const std::vector<transfer::CommunicatorGroup>& groups) {
  return engine().make_ids(groups);
}

void DeviceActor::open_communicators(const CommunicatorSetup& setup) {
  const InHandler inside(*board_, "open_communicators");
  engine().open_communicators(setup);
  if (!setup.changes.create.empty())
    log_.info("{}: opened {} communicators", name_, setup.changes.create.size());
}

void DeviceActor::cancel_collectives(std::string why) {
  if (!engine_) return;
  engine_->cancel_collectives(Error(ErrorCode::kCancelled, std::move(why)));
  wakeup_.notify();
}

void DeviceActor::install(Program program) {
  const InHandler inside(*board_, "install");
  const std::string text =
      fmt::format("program '{}' with {} instructions, {} of activations", program.name,
                  program.instructions.size(), format_bytes(program.arena_bytes));
  engine().install(std::move(program));
  log_.debug("{}: installed {}", name_, text);
}

void DeviceActor::initialize(std::uint64_t seed) {
  const InHandler inside(*board_, "initialize");
  engine().initialize(seed);
}

std::string DeviceActor::description() { return engine().description(); }

std::int64_t DeviceActor::clock() { return SteadyClock().now().time_since_epoch().count(); }

actors::task<StepReport> DeviceActor::run(StepRequest request) {
  const auto interpreter = engine().begin(request, [wakeup = wakeup_] { wakeup.notify(); });
  std::optional<Error> failure;
  try {
    while (interpreter->advance() == Interpreter::Progress::kBlocked) {
      if (interpreter->wants_polling()) co_await wakeup_.wait_for(kPoll);
      else co_await wakeup_.wait();
    }
  } catch (...) {
    failure = current_error();
  }
  for (const std::string& note : engine().take_notes()) log_.info("{}: {}", name_, note);
  if (failure) {
    log_.error("{}: program '{}' failed in step {}: {}: {}", name_, request.program, request.step,
               interpreter->position(), failure->describe());
    engine().abandon(*interpreter, *failure);
    throw std::move(*failure);
  }
  log_.debug("{}: program '{}' has run step {}", name_, request.program, request.step);
  co_return interpreter->finish();
}

actors::task<> DeviceActor::run_in_background(StepRequest request) {
  const auto interpreter =
      engine().begin_background(request, [wakeup = beside_wakeup_] { wakeup.notify(); });
  std::optional<Error> failure;
  try {
    while (interpreter->advance() == Interpreter::Progress::kBlocked)
      co_await beside_wakeup_.wait();
  } catch (...) {
    failure = current_error();
  }
  if (failure) {
    log_.error("{}: program '{}' failed: {}: {}", name_, request.program, interpreter->position(),
               failure->describe());
    engine().abandon(*interpreter, *failure);
    throw std::move(*failure);
  }
  interpreter->finish();
}

std::optional<std::uint64_t> DeviceActor::available_memory() { return weft::available_memory(); }

std::function<std::unique_ptr<DeviceActor>(actors::Context&, std::vector<std::byte>)>
make_device_actors(OpenBatches open, const Hardware& hardware) {
  transfer::restore_process_settings();  // the driver's process too, which opens no wire
  return [open = std::move(open), hardware](actors::Context& context,
                                            const std::vector<std::byte>& prepared) {
    return std::make_unique<DeviceActor>(context, open(prepared), hardware);
  };
}

}  // namespace weft::mesh
