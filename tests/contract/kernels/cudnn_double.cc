#include "tests/contract/kernels/cudnn_double.h"

#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/contract/kernels/cuda_runtime_double.h"

namespace weft::test {

CudnnDouble cudnn_double;

bool CudnnGraph::has(int operation) const {
  return std::ranges::find(operations, operation) != operations.end();
}

namespace {

std::size_t element_size(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_FRACTION:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    default: return 4;
  }
}

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::vector<std::byte> bytes;

  template <typename T>
  std::vector<T> values() const {
    std::vector<T> result(bytes.size() / sizeof(T));
    std::memcpy(result.data(), bytes.data(), result.size() * sizeof(T));
    return result;
  }
};

/// Content of a cudnnBackendDescriptor_t. A plan, a configuration and an engine hold what they were
/// made of, since callers may destroy the descriptors that they gave.
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes = {};
  std::shared_ptr<const CudnnGraph> graph = nullptr;  ///< Set from operation graphs on.
  int engine = -1;                                    ///< Index. Set from engines on.

  template <typename T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const {
    const auto at = attributes.find(name);
    return at == attributes.end() ? std::vector<T>() : at->second.values<T>();
  }
  template <typename T>
  T value(cudnnBackendAttributeName_t name, T otherwise = {}) const {
    const auto all = values<T>(name);
    return all.empty() ? otherwise : all.front();
  }
};

struct Handle {
  cudaStream_t stream = nullptr;
};

Descriptor& of(cudnnBackendDescriptor_t descriptor) {
  return *reinterpret_cast<Descriptor*>(descriptor);
}

/// Returns the descriptor that an attribute refers to; null if it is not set.
const Descriptor* referred(const Descriptor& from, cudnnBackendAttributeName_t name) {
  return reinterpret_cast<const Descriptor*>(from.value<void*>(name));
}

void add_tensor(const Descriptor& tensor, CudnnGraph& to) {
  const auto id = tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  auto& tensors = tensor.value<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0 ? to.internal : to.tensors;
  tensors[id] = {tensor.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
                 tensor.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
                 tensor.value<int>(CUDNN_ATTR_TENSOR_DATA_TYPE)};
}

std::shared_ptr<const CudnnGraph> graph_of(const Descriptor& operation_graph) {
  auto graph = std::make_shared<CudnnGraph>();
  for (const void* const pointer : operation_graph.values<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const auto& operation = *static_cast<const Descriptor*>(pointer);
    graph->operations.push_back(operation.type);
    for (const auto& [name, attribute] : operation.attributes) {
      if (attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
      for (const void* const part : attribute.values<void*>()) {
        const auto* const described = static_cast<const Descriptor*>(part);
        if (described != nullptr && described->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
          add_tensor(*described, *graph);
      }
    }
  }
  return graph;
}

std::int64_t workspace_of(const Descriptor& d) {
  return cudnn_double.engines[d.engine].workspace(*d.graph);
}

/// Returns the engines that support the graph, by index.
std::vector<int> engines_for(const CudnnGraph& graph) {
  std::vector<int> found;
  for (std::size_t i = 0; i < cudnn_double.engines.size(); ++i) {
    if (cudnn_double.engines[i].workspace(graph) >= 0) found.push_back(static_cast<int>(i));
  }
  return found;
}

/// Answers a query of values. `count` and `to` may be null.
template <typename T>
cudnnStatus_t answer(const std::vector<T>& values, std::int64_t asked, std::int64_t* count,
                     void* to) {
  if (count != nullptr) *count = std::ssize(values);
  if (to != nullptr)
    std::copy_n(values.begin(), std::min<std::int64_t>(asked, std::ssize(values)),
                static_cast<T*>(to));
  return CUDNN_STATUS_SUCCESS;
}

/// Fills descriptors that the caller made.
cudnnStatus_t answer_descriptors(const std::vector<Descriptor>& values, std::int64_t asked,
                                 std::int64_t* count, void* to) {
  if (count != nullptr) *count = std::ssize(values);
  for (std::int64_t i = 0; to != nullptr && i < std::min<std::int64_t>(asked, std::ssize(values));
       ++i)
    of(static_cast<cudnnBackendDescriptor_t*>(to)[i]) = values[i];
  return CUDNN_STATUS_SUCCESS;
}

Descriptor engine_descriptor(const std::shared_ptr<const CudnnGraph>& graph, int engine) {
  return {CUDNN_BACKEND_ENGINE_DESCRIPTOR, true, {}, graph, engine};
}

cudnnStatus_t execute(const Handle& handle, const Descriptor& plan, const Descriptor& pack) {
  if (!plan.finalized || !pack.finalized) return CUDNN_STATUS_BAD_PARAM;
  if (cudnn_double.refuses_after == 0) {
    cuda_runtime_double.invalidate();
    return CUDNN_STATUS_EXECUTION_FAILED;
  }
  --cudnn_double.refuses_after;
  CudnnExecution execution{.graph = *plan.graph,
                           .workspace = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE),
                           .stream = handle.stream,
                           .engine = plan.engine};
  const auto ids = pack.values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (ids.size() != pointers.size()) return CUDNN_STATUS_BAD_PARAM;
  for (std::size_t i = 0; i < ids.size(); ++i) execution.pointers[ids[i]] = pointers[i];
  for (const auto& [id, tensor] : plan.graph->tensors) {
    if (!execution.pointers.contains(id)) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  if (workspace_of(plan) > 0 && execution.workspace == nullptr)
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  cudnn_double.executions.push_back(std::move(execution));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace weft::test

// NOLINTBEGIN(readability-identifier-naming)
using namespace weft::test;

extern "C" {

size_t cudnnGetVersion() { return cudnn_double.version; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "a status of the double"; }
void cudnnGetLastErrorString(char* message, size_t size) {
  if (size > 0) *message = '\0';
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Handle);
  ++cudnn_double.objects;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<Handle*>(handle);
  --cudnn_double.objects;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<Handle*>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = reinterpret_cast<Handle*>(handle)->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = reinterpret_cast<cudnnBackendDescriptor_t>(new Descriptor{type});
  ++cudnn_double.objects;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &of(descriptor);
  --cudnn_double.objects;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  if (of(descriptor).finalized || (count > 0 && values == nullptr)) return CUDNN_STATUS_BAD_PARAM;
  Attribute& attribute = of(descriptor).attributes[name];
  attribute.type = type;
  attribute.bytes.resize(count * element_size(type));
  std::memcpy(attribute.bytes.data(), values, attribute.bytes.size());
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor& d = of(descriptor);
  const Descriptor* source = nullptr;
  switch (d.type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: d.graph = graph_of(d); break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      source = referred(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      source = referred(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
      ++cudnn_double.plans;
      break;
    default: break;
  }
  if (source != nullptr) {
    d.graph = source->graph;
    d.engine = source->engine;
  }
  d.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t asked, int64_t* count,
                                       void* values) {
  const Descriptor& d = of(descriptor);
  switch (name) {
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      return answer(std::vector<std::int64_t>{std::ssize(cudnn_double.engines)}, asked, count,
                    values);
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      std::vector<Descriptor> configurations;
      for (const int engine : engines_for(*d.graph))
        configurations.push_back({CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, true, {}, d.graph, engine});
      return answer_descriptors(configurations, asked, count, values);
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      return answer_descriptors({engine_descriptor(d.graph, d.engine)}, asked, count, values);
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return answer(std::vector<std::int64_t>{workspace_of(d)}, asked, count, values);
    case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
      return answer(std::vector<std::int32_t>{0}, asked, count, values);
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES: return answer_descriptors({}, asked, count, values);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return answer(std::vector<std::int64_t>{d.engine}, asked, count, values);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      std::vector<int> notes{CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
      if (!cudnn_double.engines[d.engine].deterministic)
        notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
      return answer(notes, asked, count, values);
    }
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE: return answer(std::vector<int>(), asked, count, values);
    default: break;
  }
  const auto at = d.attributes.find(name);
  if (at == d.attributes.end()) return CUDNN_STATUS_NOT_SUPPORTED;
  const std::size_t size = element_size(at->second.type);
  if (count != nullptr) *count = static_cast<std::int64_t>(at->second.bytes.size() / size);
  if (values != nullptr)
    std::memcpy(values, at->second.bytes.data(),
                std::min<std::size_t>(asked * size, at->second.bytes.size()));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return execute(*reinterpret_cast<const Handle*>(handle), of(plan), of(pack));
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
