#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

/// Test double of the CUDA runtime on the CPU, on the test's own memory: the functions that
/// CudaDevice, CudaStream and CudaKernels call. A stream does its work within the call. While it is
/// captured, it keeps the work for the launches of the graph instead. Calls that are wrong during a
/// capture return NVIDIA's documented error and invalidate the capture; calls that would break a
/// later launch of the graph return an error. One thread at a time.
namespace weft::test {

struct CudaRuntimeDouble {
  enum class Origin { kDriver, kHost, kStream, kGraph };
  struct Block {
    Origin origin = Origin::kDriver;
    std::vector<std::weak_ptr<void>> graphs = {};  ///< Lives of graphs that may have its address.
  };
  /// Graph, and also its form that is ready for launch. Owns the memory that is allocated in it.
  struct Graph {
    std::vector<std::function<void()>> work;
    std::vector<std::shared_ptr<void>> memory;
    std::shared_ptr<void> life;  ///< Shared by the graph and its executable form.
  };

  std::map<void*, Block> blocks;  ///< Blocks that are not freed yet.
  int objects = 0;                ///< Streams, events and graphs that are not destroyed yet.
  int launches = 0;               ///< Graphs launched.
  unsigned event_flags = 0;       ///< Flags of the last event made.
  unsigned device_flags = 0;      ///< Flags of the device.
  /// True if cudaGraphInstantiate finds no memory.
  bool no_memory_for_graphs = false;
  bool no_memory_in_stream = false;  ///< True if cudaMallocAsync finds no memory.
  /// Time of all streams, in microseconds. Events record it. Tests and other doubles advance it.
  double clock = 0;
  /// True after an illegal access: every call that uses the GPU fails.
  bool lost = false;

  bool is_capturing() const { return capture_ != nullptr; }
  /// Returns true if a graph would keep memory that it allocated.
  bool graph_keeps_memory() const;
  /// Does the work now, or keeps it for the graph if a stream is captured.
  void do_or_keep(std::function<void()> work);
  /// Invalidates a capture, as a call does that must not be made during one.
  void invalidate() { valid_ = false; }

  void begin_capture();
  /// Ends the capture. Returns null if it was invalidated or a block allocated in it is not freed.
  std::unique_ptr<Graph> end_capture();
  /// Frees a block of the graph at the end of the graph's life.
  void keep_until_graph_ends(void* memory);

 private:
  std::unique_ptr<Graph> capture_;
  bool valid_ = true;
};
extern CudaRuntimeDouble cuda_runtime_double;

}  // namespace weft::test
