#include "core/cuda/internal/stream_timer.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "core/cuda/internal/cuda_check.h"

namespace weft::cuda {
namespace {

constexpr int kSamples = 3;
/// Duration of one sample of short work, which hides the resolution of events (0.5 us).
constexpr double kSampleMicroseconds = 100;
constexpr int kMostRuns = 20;  ///< Most runs of a sample.
/// Duration from which work is measured once: the clock's jitter is a small part of it.
constexpr double kLongMicroseconds = 500;

}  // namespace

StreamTimer::StreamTimer(StreamHandle stream) : stream_(stream) {
  check_cuda(cudaEventCreateWithFlags(&begin_, cudaEventDefault), "cudaEventCreateWithFlags");
  const cudaError_t status = cudaEventCreateWithFlags(&end_, cudaEventDefault);
  if (status != cudaSuccess) cudaEventDestroy(begin_);
  check_cuda(status, "cudaEventCreateWithFlags");
}

StreamTimer::~StreamTimer() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
}

std::optional<double> StreamTimer::time_runs(const std::function<bool()>& queue, int runs) {
  check_cuda(cudaEventRecord(begin_, stream_), "cudaEventRecord");
  for (int i = 0; i < runs; ++i) {
    if (!queue()) return std::nullopt;
  }
  check_cuda(cudaEventRecord(end_, stream_), "cudaEventRecord");
  check_cuda(cudaEventSynchronize(end_), "measuring work on the GPU");
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
  return 1e3 * static_cast<double>(milliseconds);
}

std::optional<double> StreamTimer::time(const std::function<bool()>& queue, double best) {
  if (!queue()) return std::nullopt;
  std::optional<double> least = time_runs(queue, 1);
  if (!least || *least > 2 * best || *least >= kLongMicroseconds) return least;
  const int runs = static_cast<int>(
      std::clamp(kSampleMicroseconds / std::max(*least, 1.0), 1.0, double{kMostRuns}));
  for (int sample = runs == 1 ? 1 : 0; sample < kSamples; ++sample) {
    const std::optional<double> sum = time_runs(queue, runs);
    if (!sum) return std::nullopt;
    least = std::min(*least, *sum / runs);
  }
  return least;
}

}  // namespace weft::cuda
