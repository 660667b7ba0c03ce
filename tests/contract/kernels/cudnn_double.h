#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// Test double of cuDNN on the CPU: the functions of its backend API that cudnn-frontend and Weft
/// call. It keeps operation graphs as data, offers configurable engines for them, and notes each
/// execution. It computes nothing.
namespace weft::test {

struct CudnnTensor {
  std::vector<std::int64_t> sizes, strides;
  int data_type = 0;  ///< A cudnnDataType_t.
  bool operator==(const CudnnTensor&) const = default;
};

/// Operation graph: what cuDNN is told of a computation.
struct CudnnGraph {
  std::vector<int> operations;                  ///< Descriptor types: cudnnBackendDescriptorType_t.
  std::map<std::int64_t, CudnnTensor> tensors;  ///< Tensors in memory, by their ids.
  std::map<std::int64_t, CudnnTensor> internal;  ///< Tensors between operations, by their ids.

  bool has(int operation) const;
};

/// Execution of a plan on a stream.
struct CudnnExecution {
  CudnnGraph graph;
  std::map<std::int64_t, const void*> pointers = {};  ///< Addresses of tensors, by their ids.
  const void* workspace = nullptr;
  const void* stream = nullptr;
  int engine = 0;
};

/// Way in which the library can run a graph, best first.
struct CudnnEngine {
  bool deterministic = true;
  /// Returns the work space in bytes; negative if the engine does not support the graph.
  std::function<std::int64_t(const CudnnGraph&)> workspace;
};

struct CudnnDouble {
  std::vector<CudnnEngine> engines;  ///< None: the library supports no graph.
  std::size_t version = 91900;
  int objects = 0;         ///< Handles and descriptors that are not destroyed yet.
  int plans = 0;           ///< Plans built.
  int refuses_after = -1;  ///< Executions until one fails; negative: none fails.
  std::vector<CudnnExecution> executions;
};
extern CudnnDouble cudnn_double;

}  // namespace weft::test
