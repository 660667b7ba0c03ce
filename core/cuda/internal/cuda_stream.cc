#include "core/cuda/internal/cuda_stream.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/cuda/internal/cuda_call.h"

namespace weft {
namespace {

/// CUDA graph that is ready for launch.
class CudaGraph final : public Recording {
 public:
  CudaGraph(int gpu, cudaGraphExec_t graph) : gpu_(gpu), graph_(graph) {}
  ~CudaGraph() override {
    cudaSetDevice(gpu_);
    cudaGraphExecDestroy(graph_);
    cudaGetLastError();
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  cudaGraphExec_t graph() const { return graph_; }

 private:
  const int gpu_;
  const cudaGraphExec_t graph_;
};

/// Returns true if the GPU can write to the address: its own memory or pinned memory.
bool is_gpu_visible(const void* address) {
  cudaPointerAttributes attributes;
  const cudaError_t status = cudaPointerGetAttributes(&attributes, address);
  if (status != cudaSuccess) cudaGetLastError();
  return status == cudaSuccess && attributes.type != cudaMemoryTypeUnregistered;
}

}  // namespace

CudaStream::CudaStream(CudaDevice& device) : device_(device) {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "making a stream on " + device.name());
}

CudaStream::~CudaStream() {
  cudaSetDevice(device_.options().gpu);
  cudaStreamSynchronize(stream_);
  kernels_.reset();
  cudaStreamDestroy(stream_);
  cudaGetLastError();
}

CudaKernels& CudaStream::kernels() {
  if (kernels_ == nullptr) {
    kernels_ = std::make_unique<CudaKernels>(CudaKernelsOptions{
        .tf32 = device_.options().tf32,
        .deterministic = device_.options().deterministic,
        .vendor_libraries = device_.options().vendor_libraries,
        .measure_products = device_.options().measure_products,
        .product_choices = device_.options().product_choices,
        .note = [&device = device_](const std::string& text) { device.note(text); }});
  }
  return *kernels_;
}

template <typename Work>
void CudaStream::queue(std::string_view name, const Work& work) {
  device_.make_current();
  last_work_[queued_++ % last_work_.size()] = name;
  work();
  if (!device_.options().check_every_op || recording_) return;
  const cudaError_t status = cudaStreamSynchronize(stream_);
  if (status != cudaSuccess)
    throw cuda_error(status, fmt::format("{} on {}", name, device_.name()));
}

Error CudaStream::failure(cudaError_t status, std::string_view what) const {
  std::string names;
  for (std::size_t i = queued_ - std::min(queued_, last_work_.size()); i < queued_; ++i) {
    names += (names.empty() ? "" : ", ") + std::string(last_work_[i % last_work_.size()]);
  }
  const std::string advice = is_sticky(status) && !device_.options().check_every_op
                                 ? "; set WEFT_CUDA_CHECK=1 to find the operation that failed"
                                 : "";
  return cuda_error(status,
                    fmt::format("{} on {}; {} operations were queued, the last of them: {}{}", what,
                                device_.name(), queued_, names.empty() ? "none" : names, advice));
}

void CudaStream::run(const Op& op, std::span<const ConstTensorRef> inputs,
                     std::span<const TensorRef> outputs, std::span<const OutputMode> modes) {
  queue(to_string(op.kind), [&] { kernels().run(op, inputs, outputs, modes, stream_); });
}

void CudaStream::add(std::span<const float> from, std::span<float> to) {
  WEFT_CHECK(from.size() == to.size(), "{} and {} elements", from.size(), to.size());
  queue("a sum", [&] { kernels().add(from, to, stream_); });
}

void CudaStream::copy(std::span<const std::byte> from, std::span<std::byte> to) {
  WEFT_CHECK(from.size() == to.size(), "{} and {} bytes", from.size(), to.size());
  if (from.empty()) return;
  queue("a copy", [&] {
    const cudaError_t status =
        cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyDefault, stream_);
    if (status != cudaSuccess)
      throw failure(status, fmt::format("copying {}", format_bytes(from.size())));
  });
}

void CudaStream::fill_zero(std::span<std::byte> memory) {
  if (memory.empty()) return;
  queue("zeros", [&] {
    const cudaError_t status = cudaMemsetAsync(memory.data(), 0, memory.size(), stream_);
    if (status != cudaSuccess)
      throw failure(status, fmt::format("zeroing {}", format_bytes(memory.size())));
  });
}

void CudaStream::adamw(const AdamW& step, std::span<const AdamWParameter> parameters) {
  queue("adamw", [&] { kernels().adamw(step, parameters, stream_); });
}

void CudaStream::sums_of_squares(std::span<const std::span<const float>> tensors,
                                 std::span<double> results) {
  WEFT_CHECK(tensors.size() == results.size(), "{} tensors, {} results", tensors.size(),
             results.size());
  if (tensors.empty()) return;
  queue("sums of squares", [&] {
    if (is_gpu_visible(results.data())) {
      kernels().sums_of_squares(tensors, results, stream_);
      return;
    }
    if (sums_.size() < results.size_bytes()) {
      synchronize();  // the smaller block may be in use
      sums_ = device_.allocate(results.size_bytes());
    }
    const std::span<double> sums(reinterpret_cast<double*>(sums_.data()), results.size());
    kernels().sums_of_squares(tensors, sums, stream_);
    check_cuda(cudaMemcpyAsync(results.data(), sums.data(), results.size_bytes(), cudaMemcpyDefault,
                               stream_),
               "copying sums of squares");
  });
}

std::unique_ptr<Event> CudaStream::record() {
  device_.make_current();
  return std::make_unique<CudaEvent>(device_.events(), stream_);
}

void CudaStream::wait(const Event& event) {
  const auto* const of_gpu = dynamic_cast<const CudaEvent*>(&event);
  if (of_gpu == nullptr)
    throw_error(ErrorCode::kInvalidArgument, "a stream of {} can wait only for events of a GPU",
                device_.name());
  device_.make_current();
  check_cuda(cudaStreamWaitEvent(stream_, of_gpu->handle(), 0),
             "waiting for an event on " + device_.name());
}

void CudaStream::synchronize() {
  device_.make_current();
  const cudaError_t status = cudaStreamSynchronize(stream_);
  if (status != cudaSuccess) throw failure(status, "work failed");
  queued_ = 0;
  if (kernels_ != nullptr) kernels_->check_faults();
}

CUgraph_st* CudaStream::capture(const std::function<void()>& work) {
  // Thread-local mode: calls of other threads and the recording do not affect each other.
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
             "recording on " + device_.name());
  cudaGraph_t graph = nullptr;
  recording_ = true;
  try {
    work();
  } catch (...) {
    recording_ = false;
    if (cudaStreamEndCapture(stream_, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  recording_ = false;
  check_cuda(cudaStreamEndCapture(stream_, &graph), "recording on " + device_.name());
  return graph;
}

std::unique_ptr<Recording> CudaStream::make_graph(const std::function<void()>& work) {
  const std::unique_ptr<CUgraph_st, cudaError_t (*)(cudaGraph_t)> graph(capture(work),
                                                                        cudaGraphDestroy);
  const std::string what = "preparing recorded work on " + device_.name();
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaGraphInstantiate(&executable, graph.get(), 0), what);
  auto recording = std::make_unique<CudaGraph>(device_.options().gpu, executable);
  check_cuda(cudaGraphUpload(executable, stream_), what);
  return recording;
}

std::unique_ptr<Recording> CudaStream::record_work(const std::function<void()>& work) {
  if (device_.options().check_every_op || !device_.options().graphs) {
    work();
    return nullptr;
  }
  device_.make_current();
  std::unique_ptr<Recording> recording;
  try {
    recording = make_graph(work);
  } catch (const Error& error) {
    const cudaError_t status = cudaStreamQuery(stream_);
    cudaGetLastError();
    if (is_sticky(status)) throw;
    // No captured work has run. If an op is at fault, and not its capture, it fails here again.
    work();
    device_.note(
        fmt::format("{} repeats some work without a CUDA graph, so that steps may take "
                    "longer: {}",
                    device_.name(), error.message()));
    return nullptr;
  }
  replay(*recording);
  return recording;
}

void CudaStream::replay(const Recording& recording) {
  const auto* const graph = dynamic_cast<const CudaGraph*>(&recording);
  WEFT_CHECK(graph != nullptr, "recorded on another kind of device");
  queue("recorded work", [&] {
    const cudaError_t status = cudaGraphLaunch(graph->graph(), stream_);
    if (status != cudaSuccess) throw failure(status, "starting recorded work");
  });
}

}  // namespace weft
