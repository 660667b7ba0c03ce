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

/// What a device process works with: the device, its memory, the transfer engine, the programs. The
/// device actor and the driver (for checkpoints) each own one. Owner's thread only.
class DeviceEngine final {
 public:
  DeviceEngine(const DeviceSetup& setup, BatchSource& batches,
               const Hardware& hardware = machine_hardware(),
               std::shared_ptr<ProgressBoard> board = std::make_shared<ProgressBoard>(),
               std::optional<Log> log = {});
  ~DeviceEngine();

  /// Of the next epoch, after a death: all connections and communicators are to be made anew;
  /// memory and programs stay. Nothing may be under way.
  void renew(const DeviceSetup& setup);

  std::vector<std::byte> address() const { return transfers_->address(); }
  void connect(const std::vector<transfer::PeerAddress>& peers);
  /// How this device can be reached by others like it: opens its library, which takes a second.
  const transfer::DevicePlace& place();
  /// For groups whose first member it is. After place().
  std::vector<transfer::CommunicatorId> make_ids(
      const std::vector<transfer::CommunicatorGroup>& groups);
  /// Ends and creates communicators, and lets their members meet: waits for them, a second each.
  /// All devices do it with equal changes, between executions.
  void open_communicators(const CommunicatorSetup& setup);
  /// Device collectives of this epoch come to no end: the execution under way fails when it goes
  /// on.
  void cancel_collectives(const Error& why);
  /// Replaces a program of the same name.
  void install(Program program);
  void initialize(std::uint64_t seed);
  /// An execution of an installed program. `wake` is called on the transfer thread. At most one at
  /// a time.
  std::unique_ptr<Interpreter> begin(const StepRequest& request, std::function<void()> wake);
  /// The same beside that one, of a program that only moves what lies in host memory: at most one
  /// at a time, too. Nobody reads of it on the board.
  std::unique_ptr<Interpreter> begin_beside(const StepRequest& request, std::function<void()> wake);
  /// Ends the transfers of a failed execution and waits until its memory is free.
  void abandon(Interpreter& interpreter, const Error& why);

  /// See Storage::block.
  std::span<std::byte> block(const std::string& name) { return storage_.block(name); }
  std::string description() const { return device_->description(); }
  DeviceProgress progress() const { return board_->read(clock_.now()); }
  /// What the device has noted since the last call; see Device::notes.
  std::vector<std::string> take_notes();

 private:
  std::shared_ptr<transfer::TransferEngine> make_transfers();
  void use_transfers();
  LibraryQueue& collectives();
  const std::shared_ptr<const Program>& program(const std::string& name) const;

  DeviceSetup setup_;
  const Hardware hardware_;
  BatchSource& batches_;
  const std::optional<Log> log_;
  SteadyClock clock_;
  std::unique_ptr<Device> device_;
  std::optional<DeviceLibrary> library_;  ///< Since place().
  std::unique_ptr<Stream> stream_;
  CopyStreams copies_;
  Storage storage_;
  std::optional<LibraryQueue> collectives_;  ///< Since there are communicators.
  std::shared_ptr<ProgressBoard> board_;     // shared with whoever reports
  // shared with a report under way, for a moment
  std::shared_ptr<transfer::TransferEngine> transfers_;
  std::optional<Resources> resources_;
  std::unique_ptr<Stream> beside_stream_;
  CopyStreams beside_copies_;
  std::optional<Resources> beside_;  ///< Of what runs beside.
  // shared with the board, which others read
  std::map<std::string, std::shared_ptr<const Program>> programs_;
  std::size_t notes_taken_ = 0;
};

}  // namespace weft::mesh
