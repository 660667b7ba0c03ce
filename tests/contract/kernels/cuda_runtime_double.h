#pragma once

#include <cstddef>
#include <map>

/// Test double of the CUDA runtime on the CPU: the functions that CudaKernels calls, on the test's
/// own memory. A stream does its work within the call, also while it is recorded. Calls that are
/// wrong in a recording return NVIDIA's documented error; so do calls that would break a later
/// launch of the graph.
namespace weft::test {

struct CudaRuntimeDouble {
  enum class Origin { kDriver, kHost, kStream, kGraph };
  struct Block {
    Origin origin = Origin::kDriver;
    bool recorded = false;  ///< A graph has its address.
  };
  bool recording = false;
  std::map<void*, Block> blocks;  ///< Blocks that are not freed yet.

  /// Simulate cudaStreamBeginCapture and cudaStreamEndCapture. A graph is made at the end of a
  /// recording, but not of an abandoned one. Both ends return false if the graph would keep memory.
  void begin_recording();
  bool end_recording();
  bool abandon_recording();
};
extern CudaRuntimeDouble cuda_runtime_double;

}  // namespace weft::test
