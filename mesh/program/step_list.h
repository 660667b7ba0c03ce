#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
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

/// Steps of the network lane that start only once another one's values have arrived, by step. They
/// would share the lane otherwise, and the other one would end later.
using AwaitedSteps = std::map<std::size_t, std::size_t>;

/// Order of a graph's steps, and what comes of it.
struct StepList {
  std::vector<std::size_t> order;  ///< Steps, without those that start themselves.
  AwaitedSteps awaits;
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
StepList play_steps(const ListedSteps& graph, std::vector<std::size_t> order,
                    AwaitedSteps awaits = {});

/// Options of list_steps().
struct ListOptions {
  /// Order with which others are compared: that of the graph if empty.
  std::vector<std::size_t> given = {};
  AwaitedSteps given_awaits = {};
  double max_memory = 1.05;  ///< Limit on the bytes of values, as a part of those of `given`, ...
  double max_bytes = 0;      ///< ... or of these, if `given` takes less.
  double min_gain = 1e-2;    ///< Part of the seconds of `given` that another order must save.
};

/// Returns the shortest of some orders: the given one, and list schedules in which the step with
/// the longest path to the end goes first. They differ in the weight of the network lane in that
/// path, in whether the compute lane may wait for a more urgent step while another is ready, and in
/// whether a step of the network lane may wait until it has the lane for itself.
/// Steps of the network lane start as early as memory allows. Under both ways to share the network
/// lane, the result is at most as long as the given order. Pure.
///
/// Source: list scheduling by critical paths (Graham, 1969).
StepList list_steps(const ListedSteps& graph, const ListOptions& options = {});

}  // namespace weft::mesh
