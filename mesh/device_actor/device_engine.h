#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "mesh/device_actor/device_setup.h"
#include "mesh/program/program.h"
#include "mesh/runtime/interpreter.h"

namespace weft::mesh {

/// What a device process works with: the device, its memory, the transfer engine, the programs. The device actor and the driver
/// (for checkpoints) each own one. Owner's thread only.
class DeviceEngine final {
 public:
  DeviceEngine(const DeviceSetup& setup, BatchSource& batches);
  ~DeviceEngine();

  std::vector<std::byte> address() const { return transfers_->address(); }
  void connect(const std::vector<PeerAddress>& peers);
  /// Replaces a program of the same name.
  void install(Program program);
  void initialize(std::uint64_t seed);
  /// An execution of an installed program. `wake` is called on the transfer thread. At most one at a time.
  std::unique_ptr<Interpreter> begin(const StepRequest& request, std::function<void()> wake);
  /// Ends the transfers of a failed execution and waits until its memory is free.
  void abandon(Interpreter& interpreter, const Error& why);

  /// See Storage::block.
  std::span<std::byte> block(const std::string& name) { return storage_.block(name); }
  std::string description() const { return device_->description(); }

 private:
  const DeviceSetup setup_;
  SteadyClock clock_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::optional<CopyEngine> copies_;  ///< Of a device whose memory is not the host's.
  Storage storage_;
  std::unique_ptr<transfer::TransferEngine> transfers_;
  Resources resources_;
  std::map<std::string, Program> programs_;
};

}  // namespace weft::mesh
