#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/system/context.h"
#include "core/log/log.h"
#include "mesh/executor/device_engine.h"

namespace weft::mesh {

/// Runs one device's part of an app's programs.
///
/// Created by MeshGroup, one per rank of a mesh. Replaced where its process dies; where another
/// one's does, it goes on in the next epoch. Owner's thread only: methods run one at a time, in the
/// order each caller sent them; run() suspends while transfers are under way.
class DeviceActor final {
 public:
  /// What the driver has prepared for OpenBatches.
  using Arguments = std::tuple<std::vector<std::byte>>;

  DeviceActor(actors::Context& context, std::unique_ptr<BatchSource> batches, Hardware hardware);

  /// Makes the device reachable; gives its address on the data plane. Comes first, and again for
  /// each later epoch of the run, in which memory and programs stay.
  std::vector<std::byte> open(DeviceSetup setup);
  void connect(const std::vector<transfer::PeerAddress>& peers);
  // Between connect() and install(), where the device's library reaches others; see DeviceEngine.
  transfer::DevicePlace place();
  std::vector<transfer::CommunicatorId> make_ids(
      const std::vector<transfer::CommunicatorGroup>& groups);
  void open_communicators(const CommunicatorSetup& setup);
  /// Answers while run() waits: ends what waits for a device that has died.
  void cancel_collectives(std::string why);
  void install(Program program);
  void initialize(std::uint64_t seed);
  /// What the device is: "cpu (avx2, 1 thread)".
  std::string description();
  /// Nanoseconds of this process's steady clock, to align traces.
  std::int64_t clock();
  /// Runs a program once. After an error the mesh is of no more use: others may have done half a
  /// step.
  actors::task<StepReport> run(StepRequest request);
  /// Runs a program that only moves what lies in host memory, while run() runs another. One at a
  /// time; the same after an error.
  actors::task<> run_beside(StepRequest request);
  /// For recall(), whoever asks then.
  void remember(KeptNote note) { note_ = std::move(note); }
  KeptNote recall() const { return note_; }
  /// What this process's host could still give away; nothing where it does not tell.
  std::optional<std::uint64_t> available_memory();

  static constexpr auto endpoints = actors::interface<"mesh.device", 2>(
      actors::on<&DeviceActor::open>("open"), actors::on<&DeviceActor::connect>("connect"),
      actors::on<&DeviceActor::place>("place"), actors::on<&DeviceActor::make_ids>("make_ids"),
      actors::on<&DeviceActor::open_communicators>("open_communicators"),
      actors::on<&DeviceActor::cancel_collectives>("cancel_collectives", actors::urgent),
      actors::on<&DeviceActor::install>("install"),
      actors::on<&DeviceActor::initialize>("initialize"),
      actors::on<&DeviceActor::description>("description"),
      actors::on<&DeviceActor::clock>("clock"), actors::on<&DeviceActor::run>("run"),
      actors::on<&DeviceActor::run_beside>("run_beside", actors::urgent),
      actors::on<&DeviceActor::remember>("remember", actors::urgent),
      actors::on<&DeviceActor::recall>("recall", actors::urgent),
      actors::on<&DeviceActor::available_memory>("available_memory"));

 private:
  DeviceEngine& engine();

  const std::unique_ptr<BatchSource> batches_;
  const Hardware hardware_;
  actors::Wakeup wakeup_, beside_wakeup_;
  const std::string name_;
  const Log log_;
  // shared with reports on the I/O thread
  const std::shared_ptr<ProgressBoard> board_ = std::make_shared<ProgressBoard>();
  std::optional<DeviceEngine> engine_;
  KeptNote note_;
};

/// How device processes make their actors, for System::provide() and AppMain::provide(): with the
/// source that `open` gives for what the driver has prepared.
std::function<std::unique_ptr<DeviceActor>(actors::Context&, std::vector<std::byte>)>
make_device_actors(OpenBatches open, const Hardware& hardware = machine_hardware());

}  // namespace weft::mesh
