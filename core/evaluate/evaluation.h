#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "core/device/device.h"
#include "core/graph/graph.h"
#include "core/ops/fusion.h"

namespace weft {

/// Executes a graph on one device, in the graph's order. For tests, benchmarks, text generation,
/// and the one-device training that serves as the reference for distributed training. Not
/// thread-safe. The device must outlive it.
///
///   Evaluation evaluation(device, gpt.graph, {gpt.logits});
///   evaluation.fill_parameters(seed);
///   std::ranges::copy(ids, evaluation.data<std::int32_t>(gpt.tokens).begin());
///   evaluation.run();
///   std::span<const float> logits = evaluation.data<float>(gpt.logits);
///
/// If the host cannot access the device's memory, use write(), read() and read_part() instead of
/// data(); they work on every device.
///
/// Runs only the nodes that the results need, so inputs that only the loss needs can stay unset if
/// logits are requested. Fuses ops found by core/ops/fusion. If the device supports
/// recording (CUDA graphs), the second run is recorded and later runs replay it.
class Evaluation final {
 public:
  /// `results` can be read after a run. `accumulated` are results that a run can add to instead of
  /// overwriting; no node may use them. Throws Error(kInvalidArgument) if one does, or if the graph
  /// does not compute a result.
  Evaluation(Device& device, Graph graph, std::vector<ValueId> results,
             std::vector<ValueId> accumulated = {});
  /// Blocks until queued work is done, because it uses memory owned by this object.
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  /// Returns the device memory of an input, a parameter or a result.
  TensorRef tensor(ValueId value) const;
  /// Returns the elements for direct host access; T must have the size of the element type. Throws
  /// Error(kInvalidArgument) if the host cannot access the device's memory.
  template <typename T>
  std::span<T> data(ValueId value) const {
    require_host_memory();
    const TensorRef found = tensor(value);
    WEFT_CHECK(sizeof(T) == size_of(found.type.dtype), "%{} {} read as elements of {} bytes", value,
               to_string(found.type), sizeof(T));
    return found.as<T>();
  }
  /// Sets an input for subsequent runs. Blocks only until the last write to the same input is done.
  void write(ValueId value, std::span<const std::byte> content);
  template <typename T>
  void write(ValueId value, const std::vector<T>& content) {
    write(value, std::as_bytes(std::span(content)));
  }
  /// Reads a value. Blocks until earlier runs are done.
  void read(ValueId value, std::span<std::byte> content);
  template <typename T>
  std::vector<T> read(ValueId value) {
    std::vector<T> content(static_cast<std::size_t>(graph_.value(value).type.elements()));
    read(value, std::as_writable_bytes(std::span(content)));
    return content;
  }
  /// Reads a part: the bytes from `begin` on, or the elements [first, first + count) in row-major
  /// order.
  void read_part(ValueId value, std::size_t begin, std::span<std::byte> content);
  template <typename T>
  std::vector<T> read_part(ValueId value, std::size_t first, std::size_t count) {
    std::vector<T> content(count);
    read_part(value, first * sizeof(T), std::as_writable_bytes(std::span(content)));
    return content;
  }
  /// Initialises all parameters.
  void fill_parameters(std::uint64_t seed);
  /// Sets one parameter, converted to its element type (rounded to bf16).
  void set_parameter(ValueId parameter, std::span<const float> values);

  /// Runs all nodes that the results need. With kAccumulate, adds to the accumulated results.
  /// Returns when they are ready if the host can access the device's memory; otherwise read()
  /// blocks for them.
  void run(OutputMode accumulated = OutputMode::kWrite);

  const Graph& graph() const { return graph_; }
  Stream& stream() { return *stream_; }
  Device& device() { return device_; }
  /// Return the bytes of inputs, parameters and results, and of intermediate values.
  std::size_t persistent_bytes() const { return persistent_.size(); }
  std::size_t temporary_bytes() const { return temporary_.size(); }

 private:
  struct OpCall {
    const Op* op;
    std::vector<ConstTensorRef> inputs;
    std::vector<TensorRef> outputs;
    /// kAccumulate for outputs that are accumulated results.
    std::vector<OutputMode> accumulating;
    bool accumulates = false;
  };
  void list_needed_ops(const std::vector<ValueId>& results,
                       const std::vector<ValueId>& accumulated);
  void fuse_ops();
  void place_values(Device& device, const std::vector<ValueId>& results);
  void prepare_calls(const std::vector<ValueId>& accumulated);
  void queue(OutputMode accumulated);
  void require_host_memory() const;

  /// Host copy of an input that is being copied to the device.
  struct Staging {
    DeviceMemory memory;
    std::unique_ptr<Event> copied;
  };

  Device& device_;
  Graph graph_;
  std::unique_ptr<Stream> stream_;
  std::vector<ListedOp> ops_;  ///< Operands are values of the graph.
  std::deque<Op> fused_;       ///< Fused ops in ops_, which are not nodes of the graph.
  DeviceMemory persistent_;
  DeviceMemory temporary_;
  std::vector<std::byte*> addresses_;  ///< Indexed by value; null for values that no result needs.
  std::vector<bool> readable_;  ///< Indexed by value; true if the content persists between runs.
  std::vector<OpCall> calls_;
  std::map<ValueId, Staging> staging_;

  /// State of run() for one mode.
  struct Runs {
    int queued = 0;
    std::unique_ptr<Recording> recording;
  };
  std::array<Runs, 2> runs_;
};

}  // namespace weft
