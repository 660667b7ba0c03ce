#pragma once

#include <cstddef>
#include <map>

/// CUDA's run time for the CPU: the functions that CudaKernels calls, on the test's own memory. A
/// stream does its work within the call, also while it is recorded; what is wrong in a recording is
/// an error as NVIDIA documents it, and what would be wrong when a graph is queued again is one as
/// well.
namespace weft::test {

struct CudaRuntimeDouble {
  enum class Origin { kDriver, kHost, kStream, kGraph };
  struct Block {
    Origin origin = Origin::kDriver;
    bool recorded = false;  ///< A graph has its address.
  };
  bool recording = false;
  std::map<void*, Block> blocks;  ///< That were not freed.

  /// As cudaStreamBeginCapture and cudaStreamEndCapture, where a graph is made of it and where none
  /// is. The latter two are false if the graph would keep memory.
  void begin_recording();
  bool end_recording();
  bool abandon_recording();
};
extern CudaRuntimeDouble cuda_runtime_double;

}  // namespace weft::test
