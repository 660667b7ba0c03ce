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

/// Runs a graph on one device, in the graph's order: for tests, benchmarks, text generation, and
/// the one-device training that distributed training is compared with. One thread at a time. The
/// device must outlive it.
///
///   Evaluation evaluation(device, gpt.graph, {gpt.logits});
///   evaluation.fill_parameters(seed);
///   std::ranges::copy(ids, evaluation.data<std::int32_t>(gpt.tokens).begin());
///   evaluation.run();
///   std::span<const float> logits = evaluation.data<float>(gpt.logits);
///
/// Where the host cannot touch the device's memory, write(), read() and read_part() take the place
/// of data(); they do on every device.
///
/// Only nodes that the results need are run: inputs that matter to the loss alone need no content
/// when logits are asked for. Pairs of ops run as one where core/ops/fusion finds them. The third
/// and later runs replay what the second recorded, on devices that record (a CUDA graph).
class Evaluation final {
 public:
  /// `results` can be read after a run. `accumulated` are results too; a run can add to them
  /// instead of writing them, and no node may use them. Throws Error(kInvalidArgument) if one does,
  /// or if a result is not computed by the graph.
  Evaluation(Device& device, Graph graph, std::vector<ValueId> results,
             std::vector<ValueId> accumulated = {});
  /// Waits for what is queued, since it uses memory that ends with this.
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  /// Memory of an input, a parameter or a result, on the device.
  TensorRef tensor(ValueId value) const;
  /// The same for the host: its elements, of a type with the size of theirs. Throws
  /// Error(kInvalidArgument) if the host cannot touch the device's memory.
  template <typename T>
  std::span<T> data(ValueId value) const {
    require_host_memory();
    const TensorRef found = tensor(value);
    WEFT_CHECK(sizeof(T) == size_of(found.type.dtype), "%{} {} read as elements of {} bytes", value,
               to_string(found.type), sizeof(T));
    return found.as<T>();
  }
  /// Gives an input its content for the runs that follow. Does not wait for the device, but for the
  /// last write to the same input.
  void write(ValueId value, std::span<const std::byte> content);
  template <typename T>
  void write(ValueId value, const std::vector<T>& content) {
    write(value, std::as_bytes(std::span(content)));
  }
  /// What a value holds after the runs before; waits for them.
  void read(ValueId value, std::span<std::byte> content);
  template <typename T>
  std::vector<T> read(ValueId value) {
    std::vector<T> content(static_cast<std::size_t>(graph_.value(value).type.elements()));
    read(value, std::as_writable_bytes(std::span(content)));
    return content;
  }
  /// A part of it: the bytes from `begin` on, or elements [first, first + count) of its rows one
  /// after the other.
  void read_part(ValueId value, std::size_t begin, std::span<std::byte> content);
  template <typename T>
  std::vector<T> read_part(ValueId value, std::size_t first, std::size_t count) {
    std::vector<T> content(count);
    read_part(value, first * sizeof(T), std::as_writable_bytes(std::span(content)));
    return content;
  }
  /// Gives every parameter its initial values.
  void fill_parameters(std::uint64_t seed);
  /// Gives one parameter its values, in its element type (rounded to bf16).
  void set_parameter(ValueId parameter, std::span<const float> values);

  /// Runs all nodes that the results need. With kAccumulate, the accumulated results are added to.
  /// Where the host can touch the device's memory, they are there on return; else read() waits for
  /// them.
  void run(OutputMode accumulated = OutputMode::kWrite);

  const Graph& graph() const { return graph_; }
  Stream& stream() { return *stream_; }
  Device& device() { return device_; }
  /// Bytes of inputs, parameters and results, and of everything in between.
  std::size_t persistent_bytes() const { return persistent_.size(); }
  std::size_t temporary_bytes() const { return temporary_.size(); }

 private:
  struct Call {
    const Op* op;
    std::vector<ConstTensorRef> inputs;
    std::vector<TensorRef> outputs;
    /// kAccumulate for the outputs that are accumulated results.
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

  /// An input on its way to the device.
  struct Staging {
    DeviceMemory memory;
    std::unique_ptr<Event> copied;
  };

  Device& device_;
  Graph graph_;
  std::unique_ptr<Stream> stream_;
  std::vector<ListedOp> ops_;  ///< On values of the graph.
  std::deque<Op> fused_;       ///< Those of ops_ that are not nodes of the graph.
  DeviceMemory persistent_;
  DeviceMemory temporary_;
  std::vector<std::byte*> addresses_;  ///< By value; null for values that no result needs.
  std::vector<bool> readable_;         ///< By value: keeps its content between runs.
  std::vector<Call> calls_;
  std::map<ValueId, Staging> staging_;

  /// Of run() with kWrite and kAccumulate.
  struct Runs {
    int queued = 0;
    std::unique_ptr<Recording> recording;
  };
  std::array<Runs, 2> runs_;
};

}  // namespace weft
