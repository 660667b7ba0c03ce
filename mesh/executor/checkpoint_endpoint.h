#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "mesh/executor/device_engine.h"

namespace weft::mesh {

/// The driver's part in transfers of checkpoints: a device that computes nothing. One thread at a
/// time.
class CheckpointEndpoint final {
 public:
  explicit CheckpointEndpoint(const DeviceSetup& setup);
  ~CheckpointEndpoint();

  std::vector<std::byte> address() const { return engine_.address(); }
  void connect(const std::vector<transfer::PeerAddress>& peers) { engine_.connect(peers); }
  void install(Program program) { engine_.install(std::move(program)); }
  /// Returns the buffer through which checkpoints pass.
  std::span<float> checkpoint_buffer();

  DeviceProgress progress() const { return engine_.progress(); }

  /// Runs a program to its end. Blocks; calls `on_poll` about 50 times a second meanwhile. Throws
  /// the errors of transfers and of `on_poll`. If a device has failed or nothing moves, only
  /// `on_poll` can end the call.
  void run(const StepRequest& request, const std::function<void()>& on_poll);

 private:
  /// Batch source of the driver, which reads no data.
  class NoBatches final : public BatchSource {
   public:
    void read(std::string_view input, Split split, std::uint64_t step, int microbatch,
              int microbatches, const Region& region, std::span<std::byte> out) override;
  };

  NoBatches batches_;
  DeviceEngine engine_;
};

}  // namespace weft::mesh
