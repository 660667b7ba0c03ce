#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/system/context.h"
#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/base/units.h"
#include "core/log/log.h"
#include "mesh/executor/device_engine.h"

namespace weft::mesh {

/// Runs one device's part of an app's programs.
///
/// `Source` is the app's BatchSource; it is constructed in the device process from a
/// Source::Config, which travels. Created by MeshGroup, one per rank of a mesh; replaced, never
/// repaired, when it fails. Owner's thread only: methods run one at a time, in the order each
/// caller sent them; run() suspends while transfers are under way.
template <typename Source, Hardware (*kHardware)() = machine_hardware>
class DeviceActor final {
 public:
  using Arguments = std::tuple<typename Source::Config>;

  DeviceActor(actors::Context& context, typename Source::Config config)
      : batches_(std::move(config)),
        wakeup_(context.make_wakeup()),
        beside_wakeup_(context.make_wakeup()),
        name_(context.name()),
        log_(context.log()) {
    context.on_report([board = board_] { return board->read(SteadyClock().now()); });
  }

  /// Makes the device reachable; gives its address on the data plane. Comes first.
  std::vector<std::byte> open(DeviceSetup setup) {
    const InHandler inside(*board_, "open");
    engine_.emplace(setup, batches_, kHardware(), board_, log_);
    log_.info("{}: device {} on host {} of the run: {}", name_, setup.device, setup.host,
              engine_->description());
    return engine_->address();
  }
  void connect(std::vector<PeerAddress> peers) { engine().connect(peers); }
  // Between connect() and install(), where the device's library reaches others; see DeviceEngine.
  transfer::DevicePlace place() {
    const transfer::DevicePlace& place = engine().place();
    if (place.is_gpu && place.library.empty())
      log_.warning("{}: what goes to other GPUs goes through host memory: {}", name_,
                   place.library_absent);
    else if (place.is_gpu) log_.info("{}: reaches other GPUs by {}", name_, place.library);
    return place;
  }
  std::vector<transfer::CommunicatorId> make_ids(std::vector<transfer::CommunicatorGroup> groups) {
    return engine().make_ids(groups);
  }
  void open_communicators(CommunicatorSetup setup) {
    const InHandler inside(*board_, "open_communicators");
    engine().open_communicators(setup);
    if (!setup.changes.create.empty())
      log_.info("{}: {} communicators of the run are new", name_, setup.changes.create.size());
  }
  /// Answers while run() waits: ends what waits for a device that has died.
  void cancel_collectives(std::string why) {
    if (!engine_) return;
    engine_->cancel_collectives(Error(ErrorCode::kCancelled, std::move(why)));
    wakeup_.notify();
  }
  void install(Program program) {
    const InHandler inside(*board_, "install");
    const std::string text =
        fmt::format("program '{}' with {} instructions, {} of activations", program.name,
                    program.instructions.size(), format_bytes(program.arena_bytes));
    engine().install(std::move(program));
    log_.info("{}: installed {}", name_, text);
  }
  void initialize(std::uint64_t seed) {
    const InHandler inside(*board_, "initialize");
    engine().initialize(seed);
  }
  /// What the device is: "cpu (avx2, 1 thread)".
  std::string description() { return engine().description(); }
  /// Nanoseconds of this process's steady clock, to align traces.
  std::int64_t clock() { return SteadyClock().now().time_since_epoch().count(); }

  /// Runs a program once. After an error the mesh is of no more use: others may have done half a
  /// step.
  actors::task<StepReport> run(StepRequest request) {
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

  /// Runs a program that only moves what lies in host memory, while run() runs another. One at a
  /// time; the same after an error.
  actors::task<> run_beside(StepRequest request) {
    const auto interpreter =
        engine().begin_beside(request, [wakeup = beside_wakeup_] { wakeup.notify(); });
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
  /// What this process's host could still give away; nothing where it does not tell.
  std::optional<std::uint64_t> available_memory() { return weft::available_memory(); }

  static constexpr auto endpoints = actors::interface<"mesh.device", 1>(
      actors::on<&DeviceActor::open>("open"), actors::on<&DeviceActor::connect>("connect"),
      actors::on<&DeviceActor::place>("place"), actors::on<&DeviceActor::make_ids>("make_ids"),
      actors::on<&DeviceActor::open_communicators>("open_communicators"),
      actors::on<&DeviceActor::cancel_collectives>("cancel_collectives", actors::urgent),
      actors::on<&DeviceActor::install>("install"),
      actors::on<&DeviceActor::initialize>("initialize"),
      actors::on<&DeviceActor::description>("description"),
      actors::on<&DeviceActor::clock>("clock"), actors::on<&DeviceActor::run>("run"),
      actors::on<&DeviceActor::run_beside>("run_beside", actors::urgent),
      actors::on<&DeviceActor::available_memory>("available_memory"));

 private:
  /// How often device collectives under way are looked after.
  static constexpr Nanoseconds kPoll = std::chrono::milliseconds(100);

  DeviceEngine& engine() {
    if (!engine_) throw_error(ErrorCode::kFailedPrecondition, "call open() first");
    return *engine_;
  }

  Source batches_;
  actors::Wakeup wakeup_, beside_wakeup_;
  const std::string name_;
  const Log log_;
  // shared with reports on the I/O thread
  const std::shared_ptr<ProgressBoard> board_ = std::make_shared<ProgressBoard>();
  std::optional<DeviceEngine> engine_;
};

}  // namespace weft::mesh
