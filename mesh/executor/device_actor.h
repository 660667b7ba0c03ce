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

/// Actor that runs one device's part of an app's programs. PipelineExecutor creates one per rank of
/// a mesh. If its process dies, a new actor replaces it; if another device dies, this actor
/// continues in the next epoch.
///
/// Owner's thread only. Methods run one at a time, in the order in which each caller sent them;
/// run() suspends during transfers.
class DeviceActor final {
 public:
  /// Bytes that the driver has prepared for OpenBatches.
  using Arguments = std::tuple<std::vector<std::byte>>;

  DeviceActor(actors::Context& context, std::unique_ptr<BatchSource> batches, Hardware hardware);

  /// Creates the device, or on later calls moves it to a new epoch, keeping memory and programs.
  /// Returns the device's address on the data plane. Must be the first call.
  std::vector<std::byte> open(DeviceSetup setup);
  void connect(const std::vector<transfer::PeerAddress>& peers);
  // Call place(), make_ids() and open_communicators() between connect() and install(). See
  // DeviceEngine.
  transfer::DeviceCapabilities place();
  std::vector<transfer::CommunicatorId> make_ids(
      const std::vector<transfer::CommunicatorGroup>& groups);
  void open_communicators(const CommunicatorSetup& setup);
  /// Cancels collectives that wait for a dead device. Answered also while run() waits.
  void cancel_collectives(std::string why);
  void install(Program program);
  void initialize(std::uint64_t seed);
  /// Returns a description of the device: "cpu (avx2, 1 thread)".
  std::string description();
  /// Returns this process's steady clock in nanoseconds, to align traces.
  std::int64_t clock();
  /// Runs a program once. After an error the mesh cannot be used: other devices may have done half
  /// a step.
  actors::task<StepReport> run(StepRequest request);
  /// Runs a program that only moves data in host memory, beside run(). At most one at a time. After
  /// an error the mesh cannot be used.
  actors::task<> run_in_background(StepRequest request);
  /// Stores the driver's note for load_note(), which any later driver may call.
  void store_note(SnapshotManifest note) { note_ = std::move(note); }
  SnapshotManifest load_note() const { return note_; }
  /// Returns the free bytes of this process's host, or nothing if unknown.
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
      actors::on<&DeviceActor::run_in_background>("run_in_background", actors::urgent),
      actors::on<&DeviceActor::store_note>("store_note", actors::urgent),
      actors::on<&DeviceActor::load_note>("load_note", actors::urgent),
      actors::on<&DeviceActor::available_memory>("available_memory"));

 private:
  DeviceEngine& engine();

  const std::unique_ptr<BatchSource> batches_;
  const Hardware hardware_;
  actors::Wakeup wakeup_, beside_wakeup_;
  const std::string name_;
  const Log log_;
  // Shared with progress reports on the I/O thread.
  const std::shared_ptr<ProgressBoard> board_ = std::make_shared<ProgressBoard>();
  std::optional<DeviceEngine> engine_;
  SnapshotManifest note_;
};

/// Returns the factory of device actors for System::provide() and AppMain::provide(). `open` makes
/// each actor's batch source from the driver's bytes.
std::function<std::unique_ptr<DeviceActor>(actors::Context&, std::vector<std::byte>)>
make_device_actors(OpenBatches open, const Hardware& hardware = machine_hardware());

}  // namespace weft::mesh
