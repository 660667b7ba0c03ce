#include "tests/contract/kernels/cuda_runtime_double.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/contract/kernels/host_grid.h"

namespace weft::test {

using Origin = CudaRuntimeDouble::Origin;

CudaRuntimeDouble cuda_runtime_double;

bool CudaRuntimeDouble::graph_keeps_memory() const {
  return std::ranges::any_of(
      blocks, [](const auto& entry) { return entry.second.origin == Origin::kGraph; });
}

void CudaRuntimeDouble::do_or_keep(std::function<void()> work) {
  if (capture_ != nullptr) {
    capture_->work.push_back(std::move(work));
  } else {
    work();
  }
}

void CudaRuntimeDouble::begin_capture() {
  capture_ = std::make_unique<Graph>();
  valid_ = true;
  host_launches_to = [this](std::function<void()> launch) { do_or_keep(std::move(launch)); };
}

std::unique_ptr<CudaRuntimeDouble::Graph> CudaRuntimeDouble::end_capture() {
  std::unique_ptr<Graph> graph = std::move(capture_);
  host_launches_to = nullptr;
  if (!valid_) return nullptr;
  graph->life = std::make_shared<int>();
  for (auto& [memory, block] : blocks) block.graphs.emplace_back(graph->life);
  return graph;
}

void CudaRuntimeDouble::keep_until_graph_ends(void* memory) {
  capture_->memory.emplace_back(memory, std::free);
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

bool in_a_graph(const CudaRuntimeDouble::Block& block) {
  return std::ranges::any_of(block.graphs, [](const auto& graph) { return !graph.expired(); });
}

/// Returns the error of a call that must not be made while a stream is captured.
cudaError_t unsafe_in_capture() {
  if (cuda_runtime_double.lost) return cudaErrorIllegalAddress;
  if (!cuda_runtime_double.is_capturing()) return cudaSuccess;
  cuda_runtime_double.invalidate();
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t allocate_now(void** memory, std::size_t bytes, Origin origin) {
  const cudaError_t status = unsafe_in_capture();
  return status == cudaSuccess ? allocate(memory, bytes, origin) : status;
}
cudaError_t release_now(void* memory, bool host) {
  if (const cudaError_t status = unsafe_in_capture(); status != cudaSuccess) return status;
  if (memory == nullptr) return cudaSuccess;
  const auto at = cuda_runtime_double.blocks.find(memory);
  if (at == cuda_runtime_double.blocks.end() || (at->second.origin == Origin::kHost) != host)
    return cudaErrorInvalidValue;
  return release(memory);
}

cudaError_t queue(std::function<void()> work) {
  if (cuda_runtime_double.lost) return cudaErrorIllegalAddress;
  cuda_runtime_double.do_or_keep(std::move(work));
  return cudaSuccess;
}

/// Makes and destroys handles of one value.
template <typename Object, typename Handle>
cudaError_t create(Handle* handle) {
  *handle = reinterpret_cast<Handle>(new Object());
  ++cuda_runtime_double.objects;
  return cudaSuccess;
}
template <typename Object>
cudaError_t destroy(auto handle) {
  delete reinterpret_cast<Object*>(handle);
  --cuda_runtime_double.objects;
  return cudaSuccess;
}

using Graph = CudaRuntimeDouble::Graph;

/// Returns the time that an event recorded.
double& time_of(cudaEvent_t event) { return *reinterpret_cast<double*>(event); }

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
  if (cuda_runtime_double.no_memory_in_stream) return cudaErrorMemoryAllocation;
  return allocate(memory, bytes,
                  cuda_runtime_double.is_capturing() ? Origin::kGraph : Origin::kStream);
}
/// Frees memory. A graph frees only what it allocates itself, and memory whose address a graph has
/// must not be freed.
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  const bool capturing = cuda_runtime_double.is_capturing();
  const auto at = cuda_runtime_double.blocks.find(memory);
  const Origin freed_here = capturing ? Origin::kGraph : Origin::kStream;
  if (at == cuda_runtime_double.blocks.end() || at->second.origin != freed_here ||
      in_a_graph(at->second))
    return cudaErrorInvalidValue;
  if (!capturing) return release(memory);
  cuda_runtime_double.blocks.erase(at);
  cuda_runtime_double.keep_until_graph_ends(memory);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  return queue([=] { std::memset(memory, value, bytes); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  return queue([=] { std::memcpy(to, from, bytes); });
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  cuda_runtime_double.device_flags = flags;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (attribute == cudaDevAttrMemoryPoolsSupported) {
    *value = 0;
  } else if (attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin) {
    *value = 227 * 1024;  // H200
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "double");
  properties->major = 9;
  properties->totalGlobalMem = std::size_t{1} << 30;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t*, int) { return cudaErrorNotSupported; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaErrorNotSupported;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaErrorNotSupported; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = std::size_t{1} << 30;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void*) {
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return create<int>(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return destroy<int>(stream); }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return unsafe_in_capture(); }
cudaError_t cudaStreamQuery(cudaStream_t) { return unsafe_in_capture(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cuda_runtime_double.is_capturing() ? cudaStreamCaptureStatusActive
                                               : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  if (cuda_runtime_double.lost) return cudaErrorIllegalAddress;
  if (cuda_runtime_double.is_capturing()) return cudaErrorIllegalState;
  cuda_runtime_double.begin_capture();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!cuda_runtime_double.is_capturing()) return cudaErrorIllegalState;
  std::unique_ptr<Graph> made = cuda_runtime_double.end_capture();
  if (made == nullptr) return cudaErrorStreamCaptureInvalidated;
  *graph = reinterpret_cast<cudaGraph_t>(made.release());
  ++cuda_runtime_double.objects;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy<Graph>(graph); }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  if (cuda_runtime_double.no_memory_for_graphs) return cudaErrorMemoryAllocation;
  *executable =
      reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<const Graph*>(graph)));
  ++cuda_runtime_double.objects;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return destroy<Graph>(executable); }
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  if (cuda_runtime_double.lost) return cudaErrorIllegalAddress;
  ++cuda_runtime_double.launches;
  for (const auto& work : reinterpret_cast<const Graph*>(executable)->work) work();
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  cuda_runtime_double.event_flags = flags;
  return create<double>(event);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = static_cast<float>((time_of(end) - time_of(begin)) / 1000);
  return unsafe_in_capture();
}
cudaError_t cudaDeviceSynchronize() { return unsafe_in_capture(); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return destroy<double>(event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  return queue([event] { time_of(event) = cuda_runtime_double.clock; });
}
cudaError_t cudaEventQuery(cudaEvent_t) { return unsafe_in_capture(); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return unsafe_in_capture(); }

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorStreamCaptureUnsupported: return "not while a stream is captured";
    case cudaErrorStreamCaptureInvalidated: return "the capture was invalidated";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorMemoryAllocation: return "out of memory";
    default: return "invalid argument";
  }
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    default: return "cudaErrorInvalidValue";
  }
}

}  // extern "C"
