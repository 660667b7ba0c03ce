#include "tests/contract/kernels/cublaslt_double.h"

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/tensor/bfloat16.h"
#include "tests/contract/kernels/cuda_runtime_double.h"

namespace weft::test {

CublasLtDouble cublaslt_double;

namespace {

constexpr std::uint32_t kMostAlignment = 256;
constexpr std::size_t kSplitWorkSpace = 4096;

/// Content of a cublasLtMatmulDesc_t.
struct Operation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  std::int64_t aux_ld = 0;
  std::int32_t aux_type = -1, bias_type = -1;
};

/// Content of a cublasLtMatrixLayout_t.
struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t ld;
  bool operator==(const Layout&) const = default;
};

/// Content of a cublasLtMatmulPreference_t.
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  /// Alignments of A, B, C, D.
  std::uint32_t alignment[4] = {kMostAlignment, kMostAlignment, kMostAlignment, kMostAlignment};
};

/// Content of a cublasLtMatmulAlgo_t.
struct Algorithm {
  std::uint64_t problem = 0;
  std::uint64_t workspace = 0;
  std::uint32_t alignment[6] = {};  ///< Alignments of A, B, C, D, bias, auxiliary matrix.
  std::uint32_t index = 0;          ///< Place in the heuristic's answer.
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

template <typename Object>
cublasStatus_t create(auto* handle, Object object) {
  *handle = reinterpret_cast<std::remove_pointer_t<decltype(handle)>>(new Object(object));
  ++cublaslt_double.objects;
  return CUBLAS_STATUS_SUCCESS;
}
template <typename Object>
cublasStatus_t destroy(auto handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  delete reinterpret_cast<Object*>(handle);
  --cublaslt_double.objects;
  return CUBLAS_STATUS_SUCCESS;
}
/// Copies an attribute. CUDA documentation: "CUBLAS_STATUS_INVALID_VALUE if buf is NULL or
/// sizeInBytes doesn't match the size of the internal storage for the attribute"
template <typename T>
cublasStatus_t assign(T& attribute, const void* value, std::size_t size) {
  if (value == nullptr || size != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | kMostAlignment;
  return std::uint32_t{1} << std::countr_zero(address);
}

std::uint32_t size_of(cudaDataType_t type) { return type == CUDA_R_16BF ? 2 : 4; }

float load(const void* matrix, cudaDataType_t type, std::int64_t i) {
  return type == CUDA_R_16BF ? static_cast<float>(static_cast<const BFloat16*>(matrix)[i])
                             : static_cast<const float*>(matrix)[i];
}
void store(void* matrix, cudaDataType_t type, std::int64_t i, float value) {
  if (type == CUDA_R_16BF) {
    static_cast<BFloat16*>(matrix)[i] = BFloat16(value);
  } else {
    static_cast<float*>(matrix)[i] = value;
  }
}
/// Rounds to TF32, which has 10 bits of mantissa.
float round_to_tf32(float value) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000u) & ~0x1fffu);
}

constexpr float kGeluFactor = 0.7978845608028654f, kGeluCubic = 0.044715f;
float gelu(float x) {
  return 0.5f * x * (1 + std::tanh(kGeluFactor * (x + kGeluCubic * x * x * x)));
}
float gelu_slope(float x) {
  const float t = std::tanh(kGeluFactor * (x + kGeluCubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kGeluFactor * (1 + 3 * kGeluCubic * x * x);
}

bool adds_bias(std::uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool applies_gelu(std::uint32_t epilogue) { return (epilogue & CUBLASLT_EPILOGUE_GELU) != 0; }
bool has_aux(std::uint32_t epilogue) { return (epilogue & 128) != 0; }
bool has_vector(std::uint32_t epilogue) {
  return adds_bias(epilogue) || epilogue == CUBLASLT_EPILOGUE_BGRADA;
}

bool is_known(std::uint32_t epilogue) {
  constexpr std::uint32_t kKnown[] = {CUBLASLT_EPILOGUE_DEFAULT,       CUBLASLT_EPILOGUE_BIAS,
                                      CUBLASLT_EPILOGUE_GELU,          CUBLASLT_EPILOGUE_GELU_BIAS,
                                      CUBLASLT_EPILOGUE_DGELU,         CUBLASLT_EPILOGUE_GELU_AUX,
                                      CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_BGRADA};
  return std::ranges::find(kKnown, epilogue) != std::end(kKnown);
}

/// Returns true if cublasLtMatmul()'s table of supported types has these types.
bool supports_types(const Operation& op, const Layout& a, const Layout& b, const Layout& c,
                    const Layout& d) {
  if (op.scale != CUDA_R_32F || a.type != b.type || c.type != d.type) return false;
  const bool f32 = a.type == CUDA_R_32F && d.type == CUDA_R_32F;
  const bool bf16 = a.type == CUDA_R_16BF && (d.type == CUDA_R_16BF || d.type == CUDA_R_32F);
  if (op.compute == CUBLAS_COMPUTE_32F_FAST_TF32) return f32;
  return op.compute == CUBLAS_COMPUTE_32F && (f32 || bf16);
}

/// Matrix product, as the heuristic and cublasLtMatmul() describe it.
struct Problem {
  const Operation& op;
  const Layout &a, &b, &c, &d;

  bool a_is_transposed() const { return op.transpose_a != CUBLAS_OP_N; }
  bool b_is_transposed() const { return op.transpose_b != CUBLAS_OP_N; }
  std::int64_t m() const { return d.rows; }
  std::int64_t n() const { return d.columns; }
  std::int64_t k() const { return a_is_transposed() ? a.rows : a.columns; }
  float op_a(const void* matrix, std::int64_t i, std::int64_t l) const {
    return factor(matrix, a.type, a_is_transposed() ? l + i * a.ld : i + l * a.ld);
  }
  float op_b(const void* matrix, std::int64_t l, std::int64_t j) const {
    return factor(matrix, b.type, b_is_transposed() ? j + l * b.ld : l + j * b.ld);
  }

  cublasStatus_t check() const {
    const std::uint64_t a_rows = a_is_transposed() ? a.columns : a.rows,
                        a_columns = a_is_transposed() ? a.rows : a.columns;
    const std::uint64_t b_rows = b_is_transposed() ? b.columns : b.rows,
                        b_columns = b_is_transposed() ? b.rows : b.columns;
    if (a_rows != d.rows || a_columns != b_rows || b_columns != d.columns)
      return CUBLAS_STATUS_INVALID_VALUE;
    if (c.rows != d.rows || c.columns != d.columns) return CUBLAS_STATUS_INVALID_VALUE;
    for (const Layout* const layout : {&a, &b, &c, &d}) {
      if (layout->rows == 0 || layout->columns == 0 ||
          layout->ld < static_cast<std::int64_t>(layout->rows))
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!supports_types(op, a, b, c, d) || !is_known(op.epilogue))
      return CUBLAS_STATUS_NOT_SUPPORTED;
    // The bias has D's type, by the table and by the description of the attributes.
    if (has_vector(op.epilogue) && op.bias_type != -1 && op.bias_type != d.type)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!has_aux(op.epilogue)) return CUBLAS_STATUS_SUCCESS;
    if (op.aux_type != -1 && op.aux_type != d.type) return CUBLAS_STATUS_INVALID_VALUE;
    // "Must be divisible by 8 and be no less than the number of rows in the output matrix."
    return op.aux_ld % 8 == 0 && op.aux_ld >= m() ? CUBLAS_STATUS_SUCCESS
                                                  : CUBLAS_STATUS_INVALID_VALUE;
  }

  std::uint64_t fingerprint() const {
    std::uint64_t hash = 14695981039346656037u;
    const auto mix = [&](auto value) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211u;
    };
    mix(op.compute), mix(op.transpose_a), mix(op.transpose_b), mix(op.epilogue), mix(op.aux_ld);
    for (const Layout* const layout : {&a, &b, &c, &d})
      mix(layout->type), mix(layout->rows), mix(layout->columns), mix(layout->ld);
    return hash;
  }

 private:
  float factor(const void* matrix, cudaDataType_t type, std::int64_t at) const {
    const float value = load(matrix, type, at);
    return op.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? round_to_tf32(value) : value;
  }
};

Problem problem_of(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  const auto layout = [](cublasLtMatrixLayout_t l) -> const Layout& {
    return *reinterpret_cast<const Layout*>(l);
  };
  return {*reinterpret_cast<const Operation*>(op), layout(a), layout(b), layout(c), layout(d)};
}

/// Returns true if the algorithm works with the alignments of the problem's elements and vectors.
bool suits(const Algorithm& algorithm, const Problem& p) {
  const std::uint32_t in = size_of(p.a.type), out = size_of(p.d.type);
  const std::uint32_t least[6] = {in, in, out, out, out, 16};
  for (int i = 0; i < 6; ++i) {
    const bool used = i < 4 || (i == 4 ? has_vector(p.op.epilogue) : has_aux(p.op.epilogue));
    if (used && algorithm.alignment[i] < least[i]) return false;
  }
  return true;
}

/// Returns the times of all algorithms of a problem.
std::vector<double> times_of(const Problem& problem) {
  return cublaslt_double.times ? cublaslt_double.times(problem.op.epilogue)
                               : std::vector<double>{0};
}

void compute(const Problem& p, float alpha, const void* a, const void* b, float beta, const void* c,
             void* d) {
  const std::uint32_t epilogue = p.op.epilogue;
  for (std::int64_t j = 0; j < p.n(); ++j) {
    for (std::int64_t i = 0; i < p.m(); ++i) {
      float sum = 0;
      for (std::int64_t l = 0; l < p.k(); ++l) sum += p.op_a(a, i, l) * p.op_b(b, l, j);
      float value = alpha * sum;
      if (beta != 0) value += beta * load(c, p.c.type, i + j * p.c.ld);
      if (adds_bias(epilogue)) value += load(p.op.bias, p.d.type, i);
      const std::int64_t at_aux = i + j * p.op.aux_ld;
      if (epilogue == CUBLASLT_EPILOGUE_DGELU) {
        value *= gelu_slope(load(p.op.aux, p.d.type, at_aux));
      } else if (has_aux(epilogue)) {
        store(p.op.aux, p.d.type, at_aux, value);
      }
      if (applies_gelu(epilogue)) value = gelu(value);
      store(d, p.d.type, i + j * p.d.ld, value);
    }
  }
  if (epilogue != CUBLASLT_EPILOGUE_BGRADA) return;
  for (std::int64_t i = 0; i < p.m(); ++i) {
    float sum = 0;
    for (std::int64_t l = 0; l < p.k(); ++l) sum += p.op_a(a, i, l);
    store(p.op.bias, p.d.type, i, sum);
  }
}

}  // namespace
}  // namespace weft::test

// NOLINTBEGIN(readability-identifier-naming)
using namespace weft::test;

extern "C" {

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return create(handle, 0); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy<int>(handle); }
const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    default: return "CUBLAS_STATUS_INVALID_VALUE";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "a status of the double"; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  return create(layout, Layout{type, rows, columns, ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy<Layout>(layout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* op, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create(op, Operation{compute, scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t op) { return destroy<Operation>(op); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  auto& op = *reinterpret_cast<Operation*>(description);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return assign(op.transpose_a, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB: return assign(op.transpose_b, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return assign(op.epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return assign(op.bias, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return assign(op.bias_type, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return assign(op.aux, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return assign(op.aux_ld, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return assign(op.aux_type, value, size);
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<Preference>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t size) {
  auto& to = *reinterpret_cast<Preference*>(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return assign(to.workspace, value, size);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return assign(to.reductions, value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return assign(to.alignment[0], value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return assign(to.alignment[1], value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return assign(to.alignment[2], value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return assign(to.alignment[3], value, size);
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t op,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (op == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr ||
      preference == nullptr || requested <= 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  ++cublaslt_double.queries;
  *count = 0;
  const Problem problem = problem_of(op, a, b, c, d);
  if (const cublasStatus_t status = problem.check(); status != CUBLAS_STATUS_SUCCESS) return status;
  const auto& wish = *reinterpret_cast<const Preference*>(preference);
  Algorithm algorithm{.problem = problem.fingerprint()};
  std::ranges::copy(wish.alignment, algorithm.alignment);
  algorithm.alignment[4] = alignment_of(problem.op.bias);
  algorithm.alignment[5] = alignment_of(problem.op.aux);
  if (!suits(algorithm, problem)) return CUBLAS_STATUS_NOT_SUPPORTED;
  // Long sums are split among blocks if there is work space for the parts.
  const bool splits =
      problem.k() >= 32 && (wish.reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
  if (splits && wish.workspace >= kSplitWorkSpace) algorithm.workspace = kSplitWorkSpace;
  *count = std::min(requested, static_cast<int>(times_of(problem).size()));
  for (; algorithm.index < static_cast<std::uint32_t>(*count); ++algorithm.index) {
    cublasLtMatmulHeuristicResult_t& result = results[algorithm.index];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = algorithm.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t op,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Problem problem = problem_of(op, a, b, c, d);
  if (const cublasStatus_t status = problem.check(); status != CUBLAS_STATUS_SUCCESS) return status;
  Algorithm algorithm;
  std::memcpy(static_cast<void*>(&algorithm), algo, sizeof algorithm);
  if (algorithm.problem != problem.fingerprint() || !suits(algorithm, problem) ||
      algorithm.index >= times_of(problem).size())
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {};
  result->algo = *algo;
  result->workspaceSize = algorithm.workspace;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t op, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  for (const void* const pointer :
       {alpha, a, b, beta, static_cast<const void*>(d), static_cast<const void*>(algo)}) {
    if (pointer == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Problem problem = problem_of(op, a_layout, b_layout, c_layout, d_layout);
  if (const cublasStatus_t status = problem.check(); status != CUBLAS_STATUS_SUCCESS) return status;
  Algorithm algorithm;
  std::memcpy(static_cast<void*>(&algorithm), algo, sizeof algorithm);
  if (algorithm.problem != problem.fingerprint()) return CUBLAS_STATUS_INVALID_VALUE;
  const float host_alpha = *static_cast<const float*>(alpha),
              host_beta = *static_cast<const float*>(beta);
  // C is not read if beta is 0.
  if (host_beta != 0 && c == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (c == d && problem.c != problem.d) return CUBLAS_STATUS_INVALID_VALUE;
  const void* const vector = has_vector(problem.op.epilogue) ? problem.op.bias : nullptr;
  const void* const aux = has_aux(problem.op.epilogue) ? problem.op.aux : nullptr;
  if ((vector == nullptr && has_vector(problem.op.epilogue)) ||
      (aux == nullptr && has_aux(problem.op.epilogue)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const void* const pointers[6] = {a, b, c, d, vector, aux};
  for (int i = 0; i < 6; ++i) {
    if (pointers[i] != nullptr && alignment_of(pointers[i]) < algorithm.alignment[i])
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (workspace_bytes < algorithm.workspace || alignment_of(workspace) < kMostAlignment)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (cublaslt_double.refuses_capture && cuda_runtime_double.is_capturing()) {
    cuda_runtime_double.invalidate();
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  const std::vector<double> times = times_of(problem);
  if (algorithm.index >= times.size() || times[algorithm.index] == CublasLtDouble::kRefused)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  cuda_runtime_double.do_or_keep([=, time = times[algorithm.index], operation = problem.op,
                                  a_matrix = problem.a, b_matrix = problem.b, c_matrix = problem.c,
                                  d_matrix = problem.d] {
    cuda_runtime_double.clock += time;
    std::memset(workspace, 0xff, algorithm.workspace);
    compute({operation, a_matrix, b_matrix, c_matrix, d_matrix}, host_alpha, a, b, host_beta, c, d);
  });
  ++cublaslt_double.products;
  cublaslt_double.stream = stream;
  cublaslt_double.algorithm = static_cast<int>(algorithm.index);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
