#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/codec/codec.h"

namespace weft {

/// Which of a device's three activities an event belongs to. They run side by side: that is the
/// overlap one wants to see.
enum class TraceLane : std::uint8_t { kCompute, kSend, kReceive };

/// "compute", "send", "receive".
std::string_view to_string(TraceLane lane);

/// What an event is about. Pictures colour by it, and the share of hidden transfer time is counted
/// by it.
enum class TraceKind : std::uint8_t {
  kForward,     ///< forward of one microbatch on a stage
  kBackward,    ///< I and W of one microbatch together
  kInputGrad,   ///< I: the part of backward that earlier stages wait for
  kWeightGrad,  ///< W: the part that only the optimizer needs
  kUpdate,      ///< clipping and optimizer step
  kCollective,  ///< all-reduce, all-gather, ... within a mesh
  kReshard,     ///< activations or gradients between meshes
  kWait,        ///< compute stood still for a transfer
};

/// "forward", "backward", "input grad", "weight grad", "update", "collective", "reshard", "wait".
std::string_view to_string(TraceKind kind);

/// One span of time on one lane of one device. A value; times are nanoseconds of the recording
/// process's steady clock.
struct TraceEvent {
  static constexpr std::int32_t kNoMicrobatch = -1;

  TraceLane lane = TraceLane::kCompute;
  TraceKind kind = TraceKind::kForward;
  /// For people: "h0.attention", "stage0.out to back". Empty: the kind alone.
  std::string name = {};
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int32_t microbatch = kNoMicrobatch;
  std::int64_t step = 0;
  std::uint64_t bytes = 0;  ///< Moved by a transfer; 0 for compute.

  static constexpr auto fields = weft::fields(
      &TraceEvent::lane, &TraceEvent::kind, &TraceEvent::name, &TraceEvent::start_ns,
      &TraceEvent::end_ns, &TraceEvent::microbatch, &TraceEvent::step, &TraceEvent::bytes);
  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};

/// What one device recorded, with all that is needed to draw it beside others.
struct DeviceTrace {
  std::string name = {};  ///< "front[0,1] on worker0".
  /// Added to the device's times to get the gathering process's: 0 among processes of one machine.
  std::int64_t clock_offset_ns = 0;
  std::vector<TraceEvent> events = {};
  std::uint64_t dropped = 0;  ///< Events that did not fit in the recorder.

  static constexpr auto fields = weft::fields(&DeviceTrace::name, &DeviceTrace::clock_offset_ns,
                                              &DeviceTrace::events, &DeviceTrace::dropped);
  friend bool operator==(const DeviceTrace&, const DeviceTrace&) = default;
};

/// The label of an event: "forward 3", "reshard 3: h1.out to back", "update".
std::string label(const TraceEvent& event);

/// Puts events that overlap in time on separate tracks: result[i] is the track of events[i]; tracks
/// count from 0 and are as few as possible. A lane of transfers may have several in flight, and
/// trace viewers want spans that nest. [0,4) [1,3) [4,6) -> 0 1 0
std::vector<int> assign_tracks(const std::vector<TraceEvent>& events);

template <>
struct last_enumerator<TraceLane> {
  static constexpr TraceLane kValue = TraceLane::kReceive;
};
template <>
struct last_enumerator<TraceKind> {
  static constexpr TraceKind kValue = TraceKind::kWait;
};

}  // namespace weft
