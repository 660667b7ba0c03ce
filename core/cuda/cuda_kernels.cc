#include "core/cuda/cuda_kernels.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/cuda/internal/cublaslt_products.h"
#include "core/cuda/internal/cuda_check.h"
#include "core/cuda/internal/cudnn_graphs.h"
#include "core/cuda/internal/op_run.h"
#include "core/cuda/internal/two_part_product.h"

namespace weft {
namespace {

/// Scratch memory for one op at a time: one block, which grows to the largest need of any op so
/// far. Requests that do not fit are allocated separately in stream order and freed after the op,
/// so that a recorded graph frees what it allocates. The block does not grow while the stream
/// records. A block whose address a graph contains is kept until destruction.
class OpWorkspace {
 public:
  OpWorkspace() = default;
  OpWorkspace(const OpWorkspace&) = delete;
  OpWorkspace& operator=(const OpWorkspace&) = delete;
  ~OpWorkspace() {
    for (void* const block : retired_blocks_) cudaFree(block);
    cudaFree(block_);
  }

  void* allocate(std::size_t bytes, cudaStream_t stream) {
    bytes = (bytes + 255) / 256 * 256;
    void* result = nullptr;
    if (used_ + bytes <= size_) {
      result = static_cast<std::byte*>(block_) + used_;
    } else {
      cuda::check_cuda(cudaMallocAsync(&result, bytes, stream), "allocating work space");
      overflow_blocks_.push_back(result);
    }
    used_ += bytes;
    wanted_ = std::max(wanted_, used_);
    return result;
  }

  /// Releases all allocations for work queued from now on. Grows the block if it was too small.
  void end_op(cudaStream_t stream) {
    const bool used = used_ > 0;
    used_ = 0;
    while (!overflow_blocks_.empty()) {
      void* const block = overflow_blocks_.back();
      overflow_blocks_.pop_back();
      cuda::check_cuda(cudaFreeAsync(block, stream), "freeing work space");
    }
    if (!used) return;
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cuda::check_cuda(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing");
    if (capture != cudaStreamCaptureStatusNone) {
      recorded_ = true;
    } else if (wanted_ > size_) {
      grow(stream);
    }
  }

  /// Releases all allocations after queueing failed. Ignores errors: memory allocated for an
  /// unfinished graph has no address to be freed.
  void abandon_op(cudaStream_t stream) noexcept {
    used_ = 0;
    for (void* const block : overflow_blocks_) cudaFreeAsync(block, stream);
    overflow_blocks_.clear();
    cudaGetLastError();
  }

 private:
  void grow(cudaStream_t stream) {
    if (recorded_) {
      retired_blocks_.push_back(block_);
    } else if (block_ != nullptr) {
      cuda::check_cuda(cudaFreeAsync(block_, stream), "freeing work space");
    }
    block_ = nullptr;
    size_ = 0;
    recorded_ = false;
    cuda::check_cuda(cudaMallocAsync(&block_, wanted_, stream), "allocating work space");
    size_ = wanted_;
  }

  void* block_ = nullptr;
  std::size_t size_ = 0, used_ = 0, wanted_ = 0;
  bool recorded_ = false;  ///< True if a graph may contain the address of block_.
  std::vector<void*> overflow_blocks_, retired_blocks_;
};

int current_device() {
  int device = 0;
  cuda::check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

}  // namespace

class CudaKernels::Impl final : public cuda::Backend {
 public:
  explicit Impl(const CudaKernelsOptions& options) {
    if (options.vendor_libraries) {
      products_.emplace(cuda::CublasLtOptions{.tf32 = options.tf32,
                                              .deterministic = options.deterministic,
                                              .measure = options.measure_products,
                                              .choices = options.product_choices,
                                              .note = options.note});
      graphs_.emplace(options.deterministic, options.note);
    }
    int bytes = 0;
    cuda::check_cuda(
        cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, current_device()),
        "cudaDeviceGetAttribute");
    // The limit is for static and dynamic shared memory together.
    constexpr int kMostStaticBytes = 1024;  // most that a kernel with dynamic memory has
    shared_memory_ = bytes - kMostStaticBytes;
    void* fault = nullptr;
    cuda::check_cuda(cudaHostAlloc(&fault, sizeof(std::uint64_t), cudaHostAllocMapped),
                     "cudaHostAlloc");
    fault_ = static_cast<cuda::FaultWord*>(fault);
    *fault_ = 0;
  }
  ~Impl() override { cudaFreeHost(const_cast<std::uint64_t*>(fault_)); }

  /// Queues an op, which may allocate work space.
  template <typename QueueOp>
  void queue(cudaStream_t stream, const QueueOp& queue_op) {
    stream_ = stream;
    try {
      queue_op();
      work_space_.end_op(stream);
    } catch (...) {
      work_space_.abandon_op(stream);
      throw;
    }
  }

  cuda::StreamHandle stream() const override { return stream_; }
  void* allocate(std::size_t bytes) override { return work_space_.allocate(bytes, stream_); }
  cuda::FaultWord* fault() const override { return fault_; }
  std::size_t shared_memory() const override { return shared_memory_; }
  void fill_zero(void* memory, std::size_t bytes) override {
    cuda::check_cuda(cudaMemsetAsync(memory, 0, bytes, stream_), "cudaMemsetAsync");
  }
  void multiply(const cuda::MatrixProduct& product) override {
    if (!products_ || !products_->multiply(product, stream_))
      cuda::matrix_product(stream_, product);
  }
  bool multiply_fused(const cuda::MatrixProduct& product) override {
    cuda::TwoPartProduct two_parts(*this);
    return products_ &&
           products_->multiply_fused(product, stream_,
                                     [&](const cuda::MatrixProduct& p) { two_parts.queue(p); });
  }
  bool convolve(const cuda::Convolution& convolution) override {
    return graphs_ && graphs_->convolve(*this, convolution);
  }
  bool attend(DType type, const cuda::Attention& shape, const void* q, const void* k, const void* v,
              void* y, float* statistics) override {
    return graphs_ && graphs_->attend(*this, type, shape, q, k, v, y, statistics);
  }
  bool attend_grad(DType type, const cuda::Attention& shape,
                   const cuda::AttentionGradTensors& tensors) override {
    return graphs_ && graphs_->attend_grad(*this, type, shape, tensors);
  }

 private:
  // Null if no library is used.
  std::optional<cuda::CublasLtProducts> products_;
  std::optional<cuda::CudnnGraphs> graphs_;
  OpWorkspace work_space_;
  cudaStream_t stream_ = nullptr;
  std::size_t shared_memory_ = 0;
  cuda::FaultWord* fault_ = nullptr;
};

CudaKernels::CudaKernels(const CudaKernelsOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
CudaKernels::~CudaKernels() = default;

void CudaKernels::run(const Op& op, std::span<const ConstTensorRef> inputs,
                      std::span<const TensorRef> outputs, std::span<const OutputMode> modes,
                      CudaStreamHandle stream) {
  try {
    impl_->queue(stream, [&] { cuda::run_op(*impl_, op, inputs, outputs, modes); });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInvalidArgument ||
        error.code() == ErrorCode::kFailedPrecondition)
      throw;  // these messages name the op
    throw Error(error.code(), to_string(op) + ": " + error.message());
  }
}

void CudaKernels::add(std::span<const float> from, std::span<float> to, CudaStreamHandle stream) {
  WEFT_CHECK(from.size() == to.size(), "{} and {} elements", from.size(), to.size());
  cuda::launch_elementwise(stream, OpKind::kAdd, DType::kF32, to.data(), from.data(), to.data(),
                           to.size(), 0, false);
}

void CudaKernels::adamw(const AdamW& step, std::span<const AdamWParameter> parameters,
                        CudaStreamHandle stream) {
  for (const AdamWParameter& p : parameters) {
    const std::size_t size = p.value.size();
    WEFT_CHECK(p.gradient.size() == size && p.first_moment.size() == size &&
               p.second_moment.size() == size);
    WEFT_CHECK(
        p.working.data == nullptr || (p.working.type.dtype == DType::kBF16 &&
                                      p.working.type.elements() == static_cast<std::int64_t>(size)),
        "a working copy of {} floats as {}", size, to_string(p.working.type));
  }
  cuda::adamw(stream, step, parameters);
}

void CudaKernels::sums_of_squares(std::span<const std::span<const float>> tensors,
                                  std::span<double> results, CudaStreamHandle stream) {
  WEFT_CHECK(tensors.size() == results.size(), "{} tensors, {} results", tensors.size(),
             results.size());
  impl_->queue(stream, [&] {
    auto* const workspace = impl_->allocate_of<double>(cuda::sums_of_squares_workspace(tensors));
    cuda::sums_of_squares(stream, tensors, results.data(), workspace);
  });
}

void CudaKernels::check_faults() { cuda::check_fault(*impl_->fault()); }

}  // namespace weft
