#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "mesh/program/capture_segments.h"
#include "mesh/program/program.h"

namespace weft::mesh {

/// What a stream has recorded of the segments of programs (CUDA graphs), each of which is then
/// queued at the cost of one call: queued as it is when it is met first, recorded the second time,
/// replayed from then on.
///
/// Owned by the Storage whose memory the recordings point to, which forgets them when that moves or
/// a program is replaced. Used with one stream, which must outlive it. Owner's thread only.
class StepGraphs final {
 public:
  /// A CUDA graph takes some 10 KiB of the GPU's memory per kernel, and instructions are one to
  /// three kernels: 200 to 500 MiB. What is beyond is queued as it is.
  static constexpr std::size_t kMostInstructions = 16384;

  /// 0: nothing is recorded, and programs have no segments.
  explicit StepGraphs(std::size_t most_instructions = kMostInstructions)
      : room_(most_instructions), records_(most_instructions > 0) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  /// Of one program.
  class Graphs final {
   public:
    Graphs(StepGraphs& all, const Program& program);
    /// The segment that begins with this instruction; null if none does.
    const CaptureSegment* beginning_at(std::size_t instruction) const;
    /// Queues the segment's work: calls `work`, which queues it, or replays what that queued
    /// before. Throws what `work` throws; then nothing is recorded.
    void queue(const CaptureSegment& segment, Stream& stream, const std::function<void()>& work);

   private:
    friend class StepGraphs;
    struct Recorded {
      bool queued_before = false;
      std::size_t instructions = 0;  ///< Of the recording.
      std::unique_ptr<Recording> recording;
    };
    StepGraphs& all_;
    std::size_t instructions_;  ///< Of the program.
    std::vector<CaptureSegment> segments_;
    std::vector<Recorded> recorded_;  ///< By CaptureSegment::work.
  };

  /// The program's, good until one of its name is forgotten.
  Graphs& of(const Program& program);
  /// Of a program that is replaced. Waits for the stream if anything of it was recorded.
  void forget(const std::string& program);
  void forget_all();

 private:
  std::map<std::string, Graphs> programs_;
  std::size_t room_;          ///< For so many more instructions.
  bool records_;              ///< The device has not declined to record.
  Stream* stream_ = nullptr;  ///< Of the recordings.
};

}  // namespace weft::mesh
