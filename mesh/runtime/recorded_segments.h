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

/// Recordings (CUDA graphs) of program segments, each of which is queued with one call. A segment
/// is queued normally the first time, recorded the second time, and replayed from then on.
///
/// Owned by the Storage to whose memory the recordings point; Storage drops them if that memory
/// moves or a program is replaced. Used with one stream, which must outlive it. Owner's thread
/// only.
class RecordedSegments final {
 public:
  /// Limit of recorded instructions. A CUDA graph takes some 10 KiB of GPU memory per kernel, and
  /// an instruction is one to three kernels: 200 to 500 MiB. Segments beyond the limit are queued
  /// normally.
  static constexpr std::size_t kMaxRecordedInstructions = 16384;

  /// If `max_instructions` is 0, nothing is recorded and programs have no segments.
  explicit RecordedSegments(std::size_t max_instructions = kMaxRecordedInstructions)
      : recordable_instructions_(max_instructions), records_(max_instructions > 0) {}
  ~RecordedSegments();
  RecordedSegments(const RecordedSegments&) = delete;
  RecordedSegments& operator=(const RecordedSegments&) = delete;

  /// Recordings of one program.
  class Graphs final {
   public:
    Graphs(RecordedSegments& all, const Program& program);
    /// Returns the segment that begins with this instruction, or null.
    const CaptureSegment* beginning_at(std::size_t instruction) const;
    /// Queues the segment's work: calls `work`, or replays the recording of an earlier call. Throws
    /// what `work` throws; then nothing is recorded.
    void queue(const CaptureSegment& segment, Stream& stream, const std::function<void()>& work);

   private:
    friend class RecordedSegments;
    struct RecordedSegment {
      bool queued_before = false;
      std::size_t instructions = 0;  ///< Number of recorded instructions.
      std::unique_ptr<Recording> recording;
    };
    RecordedSegments& all_;
    std::size_t instructions_;  ///< Number of the program's instructions.
    std::vector<CaptureSegment> segments_;
    std::vector<RecordedSegment> recorded_;  ///< Recordings by CaptureSegment::work.
  };

  /// Returns the program's recordings. Valid until forget() of its name.
  Graphs& of(const Program& program);
  /// Drops the recordings of a replaced program. Waits for the stream if any were made.
  void forget(const std::string& program);
  void forget_all();

 private:
  std::map<std::string, Graphs> programs_;
  std::size_t recordable_instructions_;  ///< Number of instructions that may still be recorded.
  bool records_;                         ///< False if the device has declined to record.
  Stream* stream_ = nullptr;             ///< Stream of the recordings.
};

}  // namespace weft::mesh
