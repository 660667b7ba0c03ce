#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/codec/codec.h"

namespace weft {

/// Activity of a device that an event belongs to. The three activities run concurrently; a trace
/// shows their overlap.
enum class TraceLane : std::uint8_t { kCompute, kSend, kReceive };

/// Returns "compute", "send" or "receive".
std::string_view to_string(TraceLane lane);

/// Category of an event. Determines its colour in pictures and how the share of hidden transfer
/// time is computed.
enum class TraceKind : std::uint8_t {
  kForward,     ///< Forward of one microbatch on a stage.
  kBackward,    ///< I and W of one microbatch together.
  kInputGrad,   ///< I: input gradient, which earlier stages need.
  kWeightGrad,  ///< W: weight gradient, which only the optimizer needs.
  kUpdate,      ///< Gradient clipping and optimizer step.
  kCollective,  ///< All-reduce, all-gather, ... within a mesh.
  kReshard,     ///< Transfer of activations or gradients between meshes.
  kWait,        ///< Compute blocked on a transfer.
};

/// Returns "forward", "backward", "input grad", "weight grad", "update", "collective", "reshard" or
/// "wait".
std::string_view to_string(TraceKind kind);

/// Time span on one lane of one device. Times are nanoseconds of the recording process's steady
/// clock.
struct TraceEvent {
  static constexpr std::int32_t kNoMicrobatch = -1;

  TraceLane lane = TraceLane::kCompute;
  TraceKind kind = TraceKind::kForward;
  /// Name for display: "h0.attention", "stage0.out to back". If empty, only the kind is shown.
  std::string name = {};
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int32_t microbatch = kNoMicrobatch;
  std::int64_t step = 0;
  std::uint64_t bytes = 0;  ///< Bytes moved by a transfer; 0 for compute.

  static constexpr auto fields = weft::fields(
      &TraceEvent::lane, &TraceEvent::kind, &TraceEvent::name, &TraceEvent::start_ns,
      &TraceEvent::end_ns, &TraceEvent::microbatch, &TraceEvent::step, &TraceEvent::bytes);
  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};

/// Events recorded by one device, with the data needed to draw them beside other devices.
struct DeviceTrace {
  std::string name = {};  ///< "front[0,1] on worker0".
  /// Added to the device's times to convert them to the collecting process's clock; 0 if all
  /// processes run on one machine.
  std::int64_t clock_offset_ns = 0;
  std::vector<TraceEvent> events = {};
  std::uint64_t dropped = 0;  ///< Number of events that did not fit in the recorder.

  static constexpr auto fields = weft::fields(&DeviceTrace::name, &DeviceTrace::clock_offset_ns,
                                              &DeviceTrace::events, &DeviceTrace::dropped);
  friend bool operator==(const DeviceTrace&, const DeviceTrace&) = default;
};

/// Returns the label of an event: "forward 3", "reshard 3: h1.out to back", "update".
std::string label(const TraceEvent& event);

/// Assigns overlapping events to different tracks: result[i] is the track of events[i], counted
/// from 0. Uses as few tracks as possible. A lane may have several transfers in flight, but trace
/// viewers require spans that nest. [0,4) [1,3) [4,6) -> 0 1 0
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
