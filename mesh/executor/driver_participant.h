#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "mesh/executor/device_engine.h"

namespace weft::mesh {

/// The driver as a device of its own, which computes nothing: it takes part in the transfers of
/// checkpoints. One thread at a time.
class DriverParticipant final {
 public:
  explicit DriverParticipant(const DeviceSetup& setup);
  ~DriverParticipant();

  std::vector<std::byte> address() const { return engine_.address(); }
  void connect(const std::vector<transfer::PeerAddress>& peers) { engine_.connect(peers); }
  void install(Program program) { engine_.install(std::move(program)); }
  /// What checkpoints pass through.
  std::span<float> checkpoint_buffer();

  DeviceProgress progress() const { return engine_.progress(); }

  /// Runs a program to its end; waits, and calls `look` while it does, some times a second. Throws
  /// what the transfers throw, and what `look` throws: where a device has failed, or nothing moves,
  /// our part never ends by itself.
  void run(const StepRequest& request, const std::function<void()>& look);

 private:
  /// The driver reads no data.
  class NoBatches final : public BatchSource {
   public:
    void read(std::string_view input, Split split, std::uint64_t step, int microbatch,
              int microbatches, const Region& region, std::span<std::byte> out) override;
  };
  /// Set by the transfer thread; shared with callbacks, which may outlive a run.
  struct Bell {
    std::mutex mutex;
    std::condition_variable changed;
    bool rung = false;  // guarded by mutex
  };

  NoBatches batches_;
  DeviceEngine engine_;
};

}  // namespace weft::mesh
