#include "core/cuda/internal/cudnn_graphs.h"

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/cuda/internal/cuda_check.h"
#include "core/cuda/internal/free_on_device.h"

namespace weft::cuda {
namespace {

namespace fe = cudnn_frontend;
using Graph = fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Pointers = std::unordered_map<fe::graph::Tensor_attributes::uid_t, void*>;

/// Ids of tensors in graphs.
enum Uid : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kY,
  kStatistics,
  kDy,
  kDq,
  kDk,
  kDv,
  kX,
  kW,
  kDx,
  kDw,
  kQueryLengths,
  kKeyLengths
};

/// Limit on the work space of gradients of attention. Deterministic ones store a bf16 number per
/// head, query and key there. A batch that needs more is processed in parts.
constexpr std::int64_t kMostWorkspace = std::int64_t{256} << 20;

/// Last cuDNN version whose gradients of attention need a padding mask if the number of keys is not
/// a multiple of 128, even without padding. If none is given, cudnn-frontend adds one and copies
/// the lengths to the GPU in every call, from host memory that it then frees, which cannot be
/// recorded.
constexpr std::size_t kLastWithLengths = 91500;

bool needs_lengths(const Attention& s) {
  return s.keys % 128 != 0 && cudnnGetVersion() <= kLastWithLengths;
}

/// Numbers of queries and keys of each batch entry, in GPU memory.
class Lengths {
 public:
  Lengths() = default;
  Lengths(const Attention& s, StreamHandle stream) : stride_((s.batch + 63) / 64 * 64) {
    std::vector<std::int32_t> values(2 * stride_, s.keys);
    std::fill_n(values.begin(), stride_, static_cast<std::int32_t>(s.queries));
    const std::size_t bytes = values.size() * sizeof(std::int32_t);
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, bytes), "memory for the lengths of an attention");
    memory_.reset(static_cast<std::int32_t*>(memory));
    check_cuda(cudaMemcpyAsync(memory, values.data(), bytes, cudaMemcpyHostToDevice, stream),
               "copying lengths");
    check_cuda(cudaStreamSynchronize(stream), "copying lengths");
  }
  bool is_set() const { return memory_ != nullptr; }
  std::int32_t* queries() const { return memory_.get(); }
  std::int32_t* keys() const { return memory_.get() + stride_; }

 private:
  std::int64_t stride_ = 0;
  std::unique_ptr<std::int32_t, FreeOnDevice> memory_;
};

/// Graph that cuDNN can run, and the bytes of its work space. `graph` is null if cuDNN rejected it.
struct ExecutionPlan {
  std::unique_ptr<Graph> graph;
  std::int64_t workspace = 0;
  Lengths lengths;  ///< Set if the graph has a padding mask.
};

bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

std::unique_ptr<Graph> new_graph() {
  auto graph = std::make_unique<Graph>();
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

using Sizes = std::vector<std::int64_t>;

Tensor input(Graph& graph, Uid uid, const Sizes& sizes, const Sizes& strides) {
  return graph.tensor(
      fe::graph::Tensor_attributes().set_uid(uid).set_dim(sizes).set_stride(strides));
}
void output(const Tensor& tensor, Uid uid, const Sizes& sizes, const Sizes& strides,
            fe::DataType_t type = fe::DataType_t::BFLOAT16) {
  tensor->set_output(true).set_uid(uid).set_dim(sizes).set_stride(strides).set_data_type(type);
}

/// Sizes and strides of attention tensors: [batch, heads, rows, head_dim].
struct AttentionTensors {
  Sizes q, k, statistics, q_strides, k_strides, y_strides, statistics_strides;

  explicit AttentionTensors(const Attention& s)
      : q{s.batch, s.heads, s.queries, s.head_dim},
        k{s.batch, s.heads, s.keys, s.head_dim},
        statistics{s.batch, s.heads, s.queries, 1},
        q_strides{s.q_batch, s.head_dim, s.q_row, 1},
        k_strides{s.k_batch, s.head_dim, s.k_row, 1},
        y_strides{s.y_batch, s.head_dim, s.y_row, 1},
        statistics_strides{s.heads * s.queries, s.queries, 1, 1} {}
};

std::string describe(const char* what, const Attention& s) {
  return fmt::format("{} of {} x {} heads of {}, {} queries, {} keys{}, strides {} {} {} {} {} {}",
                     what, s.batch, s.heads, s.head_dim, s.queries, s.keys,
                     s.causal ? ", causal" : "", s.q_batch, s.q_row, s.k_batch, s.k_row, s.y_batch,
                     s.y_row);
}

float scale_of(const Attention& shape) {
  return 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
}

std::unique_ptr<Graph> forward_graph(const Attention& shape) {
  auto graph = new_graph();
  const AttentionTensors t(shape);
  auto options = fe::graph::SDPA_attributes()
                     .set_name("attention")
                     .set_generate_stats(true)
                     .set_attn_scale(scale_of(shape));
  options.set_causal_mask(shape.causal);
  const auto [y, statistics] =
      graph->sdpa(input(*graph, kQ, t.q, t.q_strides), input(*graph, kK, t.k, t.k_strides),
                  input(*graph, kV, t.k, t.k_strides), options);
  output(y, kY, t.q, t.y_strides);
  output(statistics, kStatistics, t.statistics, t.statistics_strides, fe::DataType_t::FLOAT);
  return graph;
}

std::unique_ptr<Graph> backward_graph(const Attention& shape, bool deterministic) {
  auto graph = new_graph();
  const AttentionTensors t(shape);
  auto options = fe::graph::SDPA_backward_attributes()
                     .set_name("attention_grad")
                     .set_attn_scale(scale_of(shape));
  options.set_causal_mask(shape.causal);
  options.set_deterministic_algorithm(deterministic);
  if (needs_lengths(shape)) {
    const auto lengths = [&](Uid uid) {
      Tensor tensor = input(*graph, uid, {shape.batch, 1, 1, 1}, {1, 1, 1, 1});
      tensor->set_data_type(fe::DataType_t::INT32);
      return tensor;
    };
    options.set_padding_mask(true)
        .set_seq_len_q(lengths(kQueryLengths))
        .set_seq_len_kv(lengths(kKeyLengths));
  }
  const Tensor statistics = input(*graph, kStatistics, t.statistics, t.statistics_strides);
  statistics->set_data_type(fe::DataType_t::FLOAT);
  const auto [dq, dk, dv] =
      graph->sdpa_backward(input(*graph, kQ, t.q, t.q_strides), input(*graph, kK, t.k, t.k_strides),
                           input(*graph, kV, t.k, t.k_strides), input(*graph, kY, t.q, t.y_strides),
                           input(*graph, kDy, t.q, t.y_strides), statistics, options);
  output(dq, kDq, t.q, t.q_strides);
  output(dk, kDk, t.k, t.k_strides);
  output(dv, kDv, t.k, t.k_strides);
  return graph;
}

/// Sizes in cuDNN's order: [batch, channels, height, width], and [out, in, height, width] for
/// weights. In memory channels are innermost.
struct ConvolutionTensors {
  Sizes x, w, y;

  explicit ConvolutionTensors(const Convolution& c)
      : x{c.window.x.batch, c.window.x.channels, c.window.x.height, c.window.x.width},
        w{c.out_channels, c.window.x.channels, c.window.kernel_height, c.window.kernel_width},
        y{c.window.x.batch, c.out_channels, c.window.out_height, c.window.out_width} {}
  static Sizes strides(const Sizes& s) { return {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]}; }
};

std::string describe(const Convolution& c) {
  const ConvolutionShape& w = c.window;
  const char* const pass = c.pass == ConvolutionPass::kForward     ? "convolution"
                           : c.pass == ConvolutionPass::kInputGrad ? "convolution_input_grad"
                                                                   : "convolution_weight_grad";
  return fmt::format("{} of [{}, {}, {}, {}] by {} x {} to {} channels, stride {}, padding {}",
                     pass, w.x.batch, w.x.height, w.x.width, w.x.channels, w.kernel_height,
                     w.kernel_width, c.out_channels, w.stride, w.padding);
}

std::unique_ptr<Graph> convolution_graph(const Convolution& c) {
  auto graph = new_graph();
  const ConvolutionTensors t(c);
  const auto place = [&](auto options) {
    options.set_padding({c.window.padding, c.window.padding});
    options.set_stride({c.window.stride, c.window.stride});
    options.set_dilation({1, 1});
    return options;
  };
  const auto in = [&](Uid uid, const Sizes& sizes) {
    return input(*graph, uid, sizes, ConvolutionTensors::strides(sizes));
  };
  switch (c.pass) {
    case ConvolutionPass::kForward:
      output(graph->conv_fprop(in(kX, t.x), in(kW, t.w), place(fe::graph::Conv_fprop_attributes())),
             kY, t.y, ConvolutionTensors::strides(t.y));
      break;
    case ConvolutionPass::kInputGrad:
      output(
          graph->conv_dgrad(in(kDy, t.y), in(kW, t.w), place(fe::graph::Conv_dgrad_attributes())),
          kDx, t.x, ConvolutionTensors::strides(t.x));
      break;
    case ConvolutionPass::kWeightGrad:
      output(
          graph->conv_wgrad(in(kDy, t.y), in(kX, t.x), place(fe::graph::Conv_wgrad_attributes())),
          kDw, t.w, ConvolutionTensors::strides(t.w));
      break;
  }
  return graph;
}

}  // namespace

class CudnnGraphs::Impl {
 public:
  Impl(bool deterministic, std::function<void(const std::string&)> note)
      : deterministic_(deterministic), note_(std::move(note)) {
    if (const cudnnStatus_t status = cudnnCreate(&handle_); status != CUDNN_STATUS_SUCCESS) {
      throw_error(ErrorCode::kInternal, "cudnnCreate: {}", cudnnGetErrorString(status));
    }
  }
  ~Impl() {
    plans_.clear();
    cudnnDestroy(handle_);
  }

  bool attend(Backend& backend, DType type, const Attention& shape, const void* q, const void* k,
              const void* v, void* y, float* statistics) {
    if (!is_supported(type, shape, {q, k, v, y, statistics})) return false;
    const ExecutionPlan& plan =
        plan_for(describe("attention", shape), [&] { return forward_graph(shape); });
    if (plan.graph == nullptr) return false;
    execute(backend, plan,
            {{kQ, as_mutable(q)},
             {kK, as_mutable(k)},
             {kV, as_mutable(v)},
             {kY, y},
             {kStatistics, statistics}});
    return true;
  }

  bool attend_grad(Backend& backend, DType type, const Attention& shape,
                   const AttentionGradTensors& t) {
    if (!is_supported(type, shape, {t.q, t.k, t.v, t.y, t.dy, t.dq, t.dk, t.dv, t.statistics}))
      return false;
    const ExecutionPlan& whole = backward_plan(backend, shape);
    if (whole.graph == nullptr) return false;
    const std::int64_t part = part_of_batch(shape.batch, whole.workspace);
    for (const std::int64_t size : {part, shape.batch % part}) {
      if (size == 0) continue;  // builds all graphs before queueing anything
      Attention s = shape;
      s.batch = size;
      if (backward_plan(backend, s).graph == nullptr) return false;
    }
    // Parts of the batch must meet cuDNN's alignment of tensors.
    const std::int64_t statistics_batch = shape.heads * shape.queries;
    if (part < shape.batch && !aligned(t.statistics + part * statistics_batch)) return false;
    for (std::int64_t begin = 0; begin < shape.batch; begin += part) {
      Attention s = shape;
      s.batch = std::min(part, shape.batch - begin);
      const auto at = [&](const void* base, std::int64_t stride) {
        return static_cast<void*>(const_cast<char*>(static_cast<const char*>(base)) +
                                  begin * stride * 2);
      };
      const ExecutionPlan& plan = backward_plan(backend, s);
      Pointers pointers{{kQ, at(t.q, s.q_batch)},
                        {kK, at(t.k, s.k_batch)},
                        {kV, at(t.v, s.k_batch)},
                        {kY, at(t.y, s.y_batch)},
                        {kStatistics, const_cast<float*>(t.statistics) + begin * statistics_batch},
                        {kDy, at(t.dy, s.y_batch)},
                        {kDq, at(t.dq, s.q_batch)},
                        {kDk, at(t.dk, s.k_batch)},
                        {kDv, at(t.dv, s.k_batch)}};
      if (plan.lengths.is_set())
        pointers.insert(
            {{kQueryLengths, plan.lengths.queries()}, {kKeyLengths, plan.lengths.keys()}});
      execute(backend, plan, std::move(pointers));
    }
    return true;
  }

  bool convolve(Backend& backend, const Convolution& c) {
    const ConvolutionShape& w = c.window;
    if (c.type != DType::kBF16 || w.x.channels % 8 != 0 || c.out_channels % 8 != 0) return false;
    if (c.accumulate && c.pass != ConvolutionPass::kWeightGrad) return false;
    for (const void* const pointer : {c.x, c.dy, static_cast<const void*>(c.result)}) {
      if (!aligned(pointer)) return false;
    }
    const std::int64_t taps = w.kernel_height * w.kernel_width * w.x.channels,
                       weights = taps * c.out_channels;
    if (c.pass == ConvolutionPass::kWeightGrad) return convolve_weight_grad(backend, c, taps);
    const ExecutionPlan& plan = plan_for(describe(c), [&] { return convolution_graph(c); });
    if (plan.graph == nullptr) return false;
    // Weft's weights have the channels of y innermost; cuDNN needs those of x there.
    void* const turned = backend.allocate(static_cast<std::size_t>(weights) * 2);
    transpose(backend.stream(), DType::kBF16, DType::kBF16, c.w, turned, taps, c.out_channels,
              false);
    if (c.pass == ConvolutionPass::kInputGrad) {
      execute(backend, plan, {{kDy, as_mutable(c.dy)}, {kW, turned}, {kDx, c.result}});
      return true;
    }
    execute(backend, plan, {{kX, as_mutable(c.x)}, {kW, turned}, {kY, c.result}});
    if (c.bias != nullptr) {
      const std::int64_t size = w.x.batch * w.out_height * w.out_width * c.out_channels;
      add_broadcast(backend.stream(), DType::kBF16, c.result, c.bias, c.result, size, size,
                    c.out_channels, false);
    }
    return true;
  }

 private:
  static void* as_mutable(const void* pointer) { return const_cast<void*>(pointer); }
  static std::int64_t divide_up(std::int64_t size, std::int64_t by) { return (size + by - 1) / by; }
  /// Returns the batch entries of a part, of parts of equal size but for the last. The work space
  /// grows with the batch.
  static std::int64_t part_of_batch(std::int64_t batch, std::int64_t workspace) {
    const std::int64_t parts =
        std::clamp<std::int64_t>(divide_up(workspace, kMostWorkspace), 1, batch);
    return divide_up(batch, parts);
  }

  static bool is_supported(DType type, const Attention& s,
                           std::initializer_list<const void*> pointers) {
    return type == DType::kBF16 && s.head_dim % 8 == 0 && (s.heads * s.head_dim) % 8 == 0 &&
           std::ranges::all_of(pointers, aligned);
  }

  const ExecutionPlan& backward_plan(Backend& backend, const Attention& s) {
    ExecutionPlan& plan =
        plan_for(describe("attention_grad", s), [&] { return backward_graph(s, deterministic_); });
    if (plan.graph != nullptr && needs_lengths(s) && !plan.lengths.is_set())
      plan.lengths = Lengths(s, backend.stream());
    return plan;
  }

  /// Computes the gradient of bf16 weights. cuDNN returns it in bf16 only, summed in float; it is
  /// converted to f32 while being transposed.
  bool convolve_weight_grad(Backend& backend, const Convolution& c, std::int64_t taps) {
    const ExecutionPlan& plan = plan_for(describe(c), [&] { return convolution_graph(c); });
    if (plan.graph == nullptr) return false;
    void* const turned = backend.allocate(static_cast<std::size_t>(taps * c.out_channels) * 2);
    execute(backend, plan, {{kDy, as_mutable(c.dy)}, {kX, as_mutable(c.x)}, {kDw, turned}});
    transpose(backend.stream(), DType::kBF16, DType::kF32, turned, c.result, c.out_channels, taps,
              c.accumulate);
    return true;
  }

  /// Returns the plan of that name. Builds it from the graph if it is new.
  template <typename MakeGraph>
  ExecutionPlan& plan_for(const std::string& name, MakeGraph make_graph) {
    const auto [at, is_new] = plans_.try_emplace(name);
    if (is_new) at->second = build(name, make_graph());
    return at->second;
  }

  ExecutionPlan build(const std::string& name, std::unique_ptr<Graph> graph) {
    const auto step = [&](fe::error_t status, const char* what) {
      if (status.is_good()) return true;
      const std::string reason = status.get_message();
      note_(fmt::format("cuDNN does not support {}: {}: {}", name, what,
                        reason.substr(0, std::min<std::size_t>(reason.find('\n'), 300))));
      return false;
    };
    if (!step(graph->validate(), "validate") ||
        !step(graph->build_operation_graph(handle_), "build_operation_graph") ||
        !step(graph->create_execution_plans({fe::HeurMode_t::A}), "create_execution_plans")) {
      return {};
    }
    if (deterministic_) graph->deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
    ExecutionPlan plan;
    if (!step(graph->check_support(), "check_support") ||
        !step(graph->build_plans(), "build_plans") ||
        !step(graph->get_workspace_size(plan.workspace), "get_workspace_size")) {
      return {};
    }
    plan.graph = std::move(graph);
    return plan;
  }

  void execute(Backend& backend, const ExecutionPlan& plan, Pointers pointers) {
    if (const cudnnStatus_t status = cudnnSetStream(handle_, backend.stream());
        status != CUDNN_STATUS_SUCCESS) {
      throw_error(ErrorCode::kInternal, "cudnnSetStream: {}", cudnnGetErrorString(status));
    }
    void* const workspace = plan.workspace > 0 ? backend.allocate(plan.workspace) : nullptr;
    if (fe::error_t status = plan.graph->execute(handle_, pointers, workspace); !status.is_good()) {
      throw_error(ErrorCode::kInternal, "cuDNN: {}", status.get_message());
    }
  }

  bool deterministic_;
  cudnnHandle_t handle_ = nullptr;
  std::unordered_map<std::string, ExecutionPlan> plans_;
  const std::function<void(const std::string&)> note_;
};

CudnnGraphs::CudnnGraphs(bool deterministic, const std::function<void(const std::string&)>& note)
    : impl_(std::make_unique<Impl>(deterministic, note)) {}
CudnnGraphs::~CudnnGraphs() = default;
bool CudnnGraphs::attend(Backend& backend, DType type, const Attention& shape, const void* q,
                         const void* k, const void* v, void* y, float* statistics) {
  return impl_->attend(backend, type, shape, q, k, v, y, statistics);
}
bool CudnnGraphs::attend_grad(Backend& backend, DType type, const Attention& shape,
                              const AttentionGradTensors& tensors) {
  return impl_->attend_grad(backend, type, shape, tensors);
}
bool CudnnGraphs::convolve(Backend& backend, const Convolution& convolution) {
  return impl_->convolve(backend, convolution);
}

}  // namespace weft::cuda
