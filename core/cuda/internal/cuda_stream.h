#pragma once

#include <driver_types.h>

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/cuda/cuda_device.h"
#include "core/cuda/cuda_kernels.h"

namespace weft {

/// Non-blocking CUDA stream, with the kernels' work space, which is created when the first op runs,
/// so that streams used for copies have none.
///
/// Ops are queued only. If the GPU reports an error, the message names the ops queued last; with
/// `check_every_op` it names the failed op.
class CudaStream final : public Stream {
 public:
  explicit CudaStream(CudaDevice& device);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void run(const Op& op, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           std::span<const OutputMode> modes) override;
  void add(std::span<const float> from, std::span<float> to) override;
  void copy(std::span<const std::byte> from, std::span<std::byte> to) override;
  void fill_zero(std::span<std::byte> memory) override;
  void adamw(const AdamW& step, std::span<const AdamWParameter> parameters) override;
  void sums_of_squares(std::span<const std::span<const float>> tensors,
                       std::span<double> results) override;
  std::unique_ptr<Event> record() override;
  void wait(const Event& event) override;
  void synchronize() override;
  void* native_handle() const override { return stream_; }
  std::unique_ptr<Recording> record_work(const std::function<void()>& work) override;
  void replay(const Recording& recording) override;

 private:
  /// Queues work. The message of a failure contains `name`, which must stay valid.
  template <typename Work>
  void queue(std::string_view name, const Work& work);
  CudaKernels& kernels();
  /// Captures the work that `work` queues, without running any of it.
  CUgraph_st* capture(const std::function<void()>& work);
  /// Captures work as a graph that is ready for launch. Throws Error if a call of a library cannot
  /// be captured or memory runs out; the stream can then be used as before.
  std::unique_ptr<Recording> make_graph(const std::function<void()>& work);
  /// Returns the Error for a failure of this stream, with the names of its last work.
  Error failure(cudaError_t status, std::string_view what) const;

  CudaDevice& device_;
  CUstream_st* stream_ = nullptr;
  std::unique_ptr<CudaKernels> kernels_;
  DeviceMemory sums_;  ///< Sums of squares to be copied to unpinned host memory.
  bool recording_ = false;

  std::array<std::string_view, 12> last_work_ = {};
  std::size_t queued_ = 0;  ///< Number of calls queued since the stream was last known to be empty.
};

}  // namespace weft
