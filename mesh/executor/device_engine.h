#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/log/log.h"
#include "mesh/executor/device_setup.h"
#include "mesh/executor/make_device.h"
#include "mesh/program/program.h"
#include "mesh/runtime/interpreter.h"

namespace weft::mesh {

/// State of a device process: the device, its memory, the transfer engine and the installed
/// programs. Each device actor owns one, and so does the driver, for checkpoints. Owner's thread
/// only.
class DeviceEngine final {
 public:
  DeviceEngine(const DeviceSetup& setup, BatchSource& batches,
               const Hardware& hardware = machine_hardware(),
               std::shared_ptr<ProgressBoard> board = std::make_shared<ProgressBoard>(),
               std::optional<Log> log = {});
  ~DeviceEngine();

  /// Moves to the next epoch, after a device died. Drops connections and communicators; keeps
  /// memory and programs. Nothing may be running.
  void move_to_epoch(const DeviceSetup& setup);

  std::vector<std::byte> address() const { return transfers_->address(); }
  void connect(const std::vector<transfer::PeerAddress>& peers);
  /// Returns where this device computes and how other GPUs reach it. The first call opens the
  /// collective library, which takes about a second.
  const transfer::DeviceCapabilities& place();
  /// Creates the ids of groups whose first member is this device. Call after place().
  std::vector<transfer::CommunicatorId> make_ids(
      const std::vector<transfer::CommunicatorGroup>& groups);
  /// Destroys and creates communicators; blocks until their members have connected, about a second
  /// each. All devices must call it with equal changes, between executions.
  void open_communicators(const CommunicatorSetup& setup);
  /// Cancels this epoch's device collectives. The running execution fails when it next advances.
  void cancel_collectives(const Error& why);
  /// Installs a program. Replaces one of the same name.
  void install(Program program);
  void initialize(std::uint64_t seed);
  /// Begins an execution of an installed program. At most one at a time. `wake` is called on the
  /// transfer thread.
  std::unique_ptr<Interpreter> begin(const StepRequest& request, std::function<void()> wake);
  /// Begins a background execution of a program that only moves data in host memory. At most one at
  /// a time. Its progress does not appear on the board.
  std::unique_ptr<Interpreter> begin_background(const StepRequest& request,
                                                std::function<void()> wake);
  /// Cancels the transfers of a failed execution and blocks until its memory is free.
  void abandon(Interpreter& interpreter, const Error& why);

  /// See Storage::block.
  std::span<std::byte> block(const std::string& name) { return storage_.block(name); }
  std::string description() const { return device_->description(); }
  DeviceProgress progress() const { return board_->read(clock_.now()); }
  /// Returns the device's notes since the last call; see Device::notes.
  std::vector<std::string> take_notes();

 private:
  std::shared_ptr<transfer::TransferEngine> make_transfers();
  void use_transfers();
  CollectiveStream& collectives();
  const std::shared_ptr<const Program>& program(const std::string& name) const;

  DeviceSetup setup_;
  const Hardware hardware_;
  BatchSource& batches_;
  const std::optional<Log> log_;
  SteadyClock clock_;
  std::unique_ptr<Device> device_;
  std::optional<DeviceLibrary> library_;  ///< Set by place().
  std::unique_ptr<Stream> stream_;
  CopyStreams copies_;
  Storage storage_;
  std::optional<CollectiveStream> collectives_;  ///< Set once there are communicators.
  std::shared_ptr<ProgressBoard> board_;         // shared with progress reports
  // Shared with a running report for a moment.
  std::shared_ptr<transfer::TransferEngine> transfers_;
  std::optional<Resources> resources_;
  std::unique_ptr<Stream> beside_stream_;
  CopyStreams beside_copies_;
  std::optional<Resources> beside_;  ///< Resources of background executions.
  // Shared with the board, which other threads read.
  std::map<std::string, std::shared_ptr<const Program>> programs_;
  std::size_t notes_taken_ = 0;
};

}  // namespace weft::mesh
