#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace weft::mesh {

/// Unit of a device that works on one step at a time, beside the other one.
enum class StepLane : std::uint8_t { kCompute, kNetwork };

/// Value that listed steps make or read.
struct ListedValue {
  double bytes = 0;      ///< Bytes on a device.
  bool is_kept = false;  ///< True if its memory is needed after the list.
};

/// Step to be listed.
struct ListedStep {
  StepLane lane = StepLane::kCompute;
  double seconds = 0;              ///< Time for which it has its lane.
  double latency = 0;              ///< Time from then until its values exist.
  std::vector<std::size_t> reads;  ///< Values, by index.
  std::vector<std::size_t> makes;
  /// True if the step is not part of the order: it starts by itself when its values exist.
  bool starts_itself = false;
  /// Bytes of buffers that it holds until it ends, if it starts itself.
  double buffer_bytes = 0;
};

/// Steps of an action on one device, and their values. Each step comes after the makers of the
/// values that it reads; values without a maker exist at the beginning.
struct ListedSteps {
  std::vector<ListedStep> steps;
  std::vector<ListedValue> values;
  /// Bytes that steps that start themselves may hold at a time; the next one waits for the oldest.
  double max_buffer_bytes = std::numeric_limits<double>::infinity();
};

/// Order of a graph's steps, and what comes of it.
struct StepList {
  std::vector<std::size_t> order;  ///< Steps, without those that start themselves.
  /// Time at which the last step ends, except those that start themselves.
  double seconds = 0;
  double exposed = 0;  ///< Time in which the compute lane waits for the network lane.
  /// Time from `seconds` until the last step ends that starts itself.
  double late = 0;
  double peak_bytes = 0;  ///< Most bytes of values at a time. It depends on the order alone.
  /// Times at which each step begins, and at which its values exist.
  std::vector<double> begin, end;
};

/// Plays an order as a device runs it. The compute lane takes the steps in order. It starts a step
/// of the network lane and goes on, and waits where a step reads a value that has not arrived.
/// Steps of the network lane use it one after the other in the order of their starts, or share it
/// as far as a sender admits (transfer::EgressLimit): real transfers are in between, so the times
/// are means of both.
StepList play_steps(const ListedSteps& graph, std::vector<std::size_t> order);

/// Returns the shortest of some orders: that of the graph, and list schedules in which the step
/// with the longest path to the end goes first. They differ in the weight of the network lane in
/// that path, and in whether the compute lane may wait for a more urgent step while another is
/// ready. Steps of the network lane start as early as memory allows: the result takes at most
/// `max_memory` of the bytes of the graph's order. Under both ways to share the network lane it is
/// at most as long as that order. Pure.
///
/// Source: list scheduling by critical paths (Graham, 1969).
StepList list_steps(const ListedSteps& graph, double max_memory = 1.05);

}  // namespace weft::mesh
