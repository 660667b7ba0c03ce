#include "tests/contract/kernels/cuda_runtime_double.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace weft::test {

using Origin = CudaRuntimeDouble::Origin;

CudaRuntimeDouble cuda_runtime_double;

void CudaRuntimeDouble::begin_recording() { recording = true; }

bool CudaRuntimeDouble::end_recording() {
  for (auto& [memory, block] : blocks) block.recorded = true;
  return abandon_recording();
}

bool CudaRuntimeDouble::abandon_recording() {
  recording = false;
  return std::ranges::none_of(
      blocks, [](const auto& entry) { return entry.second.origin == Origin::kGraph; });
}

namespace {

cudaError_t allocate(void** memory, std::size_t bytes, Origin origin) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*memory, 0xff, bytes);  // NaNs, as new memory holds other data
  cuda_runtime_double.blocks[*memory] = {.origin = origin};
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  cuda_runtime_double.blocks.erase(memory);
  std::free(memory);
  return cudaSuccess;
}

/// Calls that fail while a stream is being recorded.
cudaError_t allocate_now(void** memory, std::size_t bytes, Origin origin) {
  return cuda_runtime_double.recording ? cudaErrorStreamCaptureUnsupported
                                       : allocate(memory, bytes, origin);
}
cudaError_t release_now(void* memory, bool host) {
  if (cuda_runtime_double.recording) return cudaErrorStreamCaptureUnsupported;
  if (memory == nullptr) return cudaSuccess;
  const auto at = cuda_runtime_double.blocks.find(memory);
  if (at == cuda_runtime_double.blocks.end() || (at->second.origin == Origin::kHost) != host)
    return cudaErrorInvalidValue;
  return release(memory);
}

}  // namespace
}  // namespace weft::test

using namespace weft::test;

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return allocate_now(memory, bytes, Origin::kDriver);
}
cudaError_t cudaFree(void* memory) { return release_now(memory, false); }
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return allocate_now(memory, bytes, Origin::kHost);
}
cudaError_t cudaFreeHost(void* memory) { return release_now(memory, true); }

cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) {
  return allocate(memory, bytes, cuda_runtime_double.recording ? Origin::kGraph : Origin::kStream);
}
/// Frees memory. A graph frees only what it allocates itself, and memory whose address a graph has
/// must not be freed.
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  const auto at = cuda_runtime_double.blocks.find(memory);
  const Origin freed_here = cuda_runtime_double.recording ? Origin::kGraph : Origin::kStream;
  if (at == cuda_runtime_double.blocks.end() || at->second.origin != freed_here ||
      at->second.recorded)
    return cudaErrorInvalidValue;
  return release(memory);
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status =
      cuda_runtime_double.recording ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (attribute != cudaDevAttrMaxSharedMemoryPerBlockOptin) return cudaErrorInvalidValue;
  *value = 227 * 1024;  // H200
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorStreamCaptureUnsupported ? "not while a stream is recorded"
                                                    : "invalid argument";
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorStreamCaptureUnsupported ? "cudaErrorStreamCaptureUnsupported"
                                                    : "cudaErrorInvalidValue";
}

}  // extern "C"
