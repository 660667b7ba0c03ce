#include "mesh/runtime/recorded_segments.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::mesh {

RecordedSegments::Graphs::Graphs(RecordedSegments& all, const Program& program)
    : all_(all),
      instructions_(program.instructions.size()),
      segments_(all.records_ ? find_capture_segments(program) : std::vector<CaptureSegment>()) {
  for (const CaptureSegment& segment : segments_) {
    if (segment.work >= recorded_.size()) recorded_.resize(segment.work + 1);
  }
}

const CaptureSegment* RecordedSegments::Graphs::beginning_at(std::size_t instruction) const {
  const auto at = std::ranges::lower_bound(segments_, instruction, {}, &CaptureSegment::begin);
  return at != segments_.end() && at->begin == instruction ? &*at : nullptr;
}

void RecordedSegments::Graphs::queue(const CaptureSegment& segment, Stream& stream,
                                     const std::function<void()>& work) {
  RecordedSegment& recorded = recorded_[segment.work];
  if (recorded.recording != nullptr) return stream.replay(*recorded.recording);
  const std::size_t instructions = segment.end - segment.begin;
  if (!recorded.queued_before || !all_.records_ || instructions > all_.recordable_instructions_) {
    work();
    recorded.queued_before = true;
    return;
  }
  WEFT_CHECK(all_.stream_ == nullptr || all_.stream_ == &stream);
  recorded.recording = stream.record_work(work);
  if (recorded.recording == nullptr) {
    all_.records_ = false;
    return;
  }
  all_.stream_ = &stream;
  recorded.instructions = instructions;
  all_.recordable_instructions_ -= instructions;
}

RecordedSegments::~RecordedSegments() {
  try {
    forget_all();
  } catch (...) {
    // Failed work no longer uses the recordings, and its error was reported to its caller.
    static_cast<void>(current_error());
  }
}

RecordedSegments::Graphs& RecordedSegments::of(const Program& program) {
  Graphs& graphs = programs_.try_emplace(program.name, *this, program).first->second;
  WEFT_CHECK(graphs.instructions_ == program.instructions.size(),
             "program '{}' changed without a call of Storage::provide()", program.name);
  return graphs;
}

void RecordedSegments::forget(const std::string& program) {
  const auto found = programs_.find(program);
  if (found == programs_.end()) return;
  if (stream_ != nullptr) stream_->synchronize();
  for (const Graphs::RecordedSegment& recorded : found->second.recorded_)
    recordable_instructions_ += recorded.instructions;
  programs_.erase(found);
}

void RecordedSegments::forget_all() {
  while (!programs_.empty()) forget(std::string(programs_.begin()->first));
}

}  // namespace weft::mesh
