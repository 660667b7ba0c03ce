// cuBLASLt expects column-major matrices, so it computes the transposed product: c^T[n, m] = b^T[n,
// k] a^T[k, m]. A row-major [r, s] is a column-major s x r with leading dimension s.
//
//   our b [k, n]                -> its A, n x k, not transposed
//   our b [n, k] (transpose_b)  -> its A, k x n, transposed
//   our a [m, k]                -> its B, k x m, not transposed
//   our a [k, m] (transpose_a)  -> its B, m x k, transposed
//   our c [m, n]                -> its C and D, n x m; the bias has an element per row of D
//
// Fused products use its epilogues: GELU (the tanh form) and its gradient with the auxiliary
// matrix, an addend as C with a separate D, and the sums of b's rows as the bias gradient of A
// (BGRADA).
#include "core/cuda/internal/cublaslt_problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/cuda/internal/cuda_check.h"

namespace weft::cuda {
namespace {

cudaDataType_t cuda_type(DType type) { return type == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F; }

/// Largest alignment that the library is told. Its choice of an algorithm depends on alignments up
/// to 256 bytes; the memory of an op is aligned to 64 bytes in one layout and to 256 in another.
/// Equal work has to get one algorithm, and so equal bits, at all of these addresses.
constexpr std::uintptr_t kMostAlignment = 16;

/// Returns the largest power of two up to kMostAlignment that divides the address.
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | kMostAlignment;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

/// Returns an address that has this alignment and no larger one. The heuristic takes the alignments
/// of vectors from their addresses; it reads nothing there.
void* address_aligned_to(std::uint32_t alignment) {
  return reinterpret_cast<void*>(std::uintptr_t{4096} + alignment);
}

/// Returns the epilogue of a product; nullopt for combinations without one, which callers do not
/// use.
std::optional<cublasLtEpilogue_t> epilogue_of(const MatrixProduct& p) {
  const bool bias = p.bias != nullptr;
  if (bias && p.in != p.out) return std::nullopt;  // the bias must have D's type
  if (p.b_row_sums != nullptr) {
    if (bias || p.epilogue != Epilogue::kNone || p.out != DType::kF32) return std::nullopt;
    return CUBLASLT_EPILOGUE_BGRADA;
  }
  switch (p.epilogue) {
    case Epilogue::kNone: return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kGelu:
      if (p.gelu_input == nullptr)
        return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
      return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::kGeluGrad: return bias ? std::nullopt : std::optional(CUBLASLT_EPILOGUE_DGELU);
  }
  return std::nullopt;
}

/// Returns true if the auxiliary matrix meets the library's requirements: rows of a multiple of 8
/// elements, and 16-byte alignment.
bool suits_auxiliary(const MatrixProduct& p) {
  return p.n % 8 == 0 && reinterpret_cast<std::uintptr_t>(p.gelu_input) % 16 == 0;
}

/// Returns the matrix that is added to the product: c itself if it accumulates.
const void* added(const MatrixProduct& p) { return p.addend != nullptr ? p.addend : p.c; }

/// Returns the vector with one element per row of D. No product has both.
const void* bias_or_sums(const MatrixProduct& p) {
  return p.bias != nullptr ? p.bias : p.b_row_sums;
}

bool has_auxiliary(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_DGELU;
}

bool has_vector(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_BGRADA;
}

template <typename T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
}

/// Limits on the algorithms that the library may propose.
class Preference final {
 public:
  Preference() {
    check_cublas(cublasLtMatmulPreferenceCreate(&handle_), "cublasLtMatmulPreferenceCreate");
  }
  ~Preference() { cublasLtMatmulPreferenceDestroy(handle_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  template <typename T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    check_cublas(cublasLtMatmulPreferenceSetAttribute(handle_, attribute, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t get() const { return handle_; }

 private:
  cublasLtMatmulPreference_t handle_ = nullptr;
};

}  // namespace

std::optional<ProductKey> product_key(const MatrixProduct& p, bool tf32) {
  const std::optional<cublasLtEpilogue_t> epilogue = epilogue_of(p);
  if (!epilogue || (p.gelu_input != nullptr && !suits_auxiliary(p))) return std::nullopt;
  const bool rounds = tf32 && p.in == DType::kF32;
  return ProductKey{.m = p.m,
                    .n = p.n,
                    .k = p.k,
                    .in = p.in,
                    .out = p.out,
                    .compute = rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                    .transpose_a = p.transpose_a,
                    .transpose_b = p.transpose_b,
                    .epilogue = *epilogue,
                    .has_addend = p.addend != nullptr,
                    .accumulate = p.accumulate,
                    .alignments = {alignment_of(p.a), alignment_of(p.b), alignment_of(p.c),
                                   alignment_of(added(p)), alignment_of(p.gelu_input),
                                   alignment_of(bias_or_sums(p))}};
}

std::string to_string(const ProductKey& key) {
  return fmt::format("{} x {} x {}{}{} of {} to {} with epilogue {}{}", key.m, key.n, key.k,
                     key.transpose_a ? ", a transposed" : "",
                     key.transpose_b ? ", b transposed" : "", to_string(key.in), to_string(key.out),
                     static_cast<int>(key.epilogue), key.has_addend ? ", added to another" : "");
}

std::string to_full_text(const ProductKey& key) {
  return fmt::format(
      "{}{}{}, alignments {}", to_string(key), key.accumulate ? ", added to the result" : "",
      key.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? ", tf32" : "", fmt::join(key.alignments, " "));
}

bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

CublasLtProblem::CublasLtProblem(const ProductKey& key) : key_(key) {
  const auto layout = [](cublasLtMatrixLayout_t& to, DType type, std::int64_t rows,
                         std::int64_t columns) {
    check_cublas(cublasLtMatrixLayoutCreate(&to, cuda_type(type), rows, columns, rows),
                 "cublasLtMatrixLayoutCreate");
  };
  try {
    check_cublas(cublasLtMatmulDescCreate(&operation_, key.compute, CUDA_R_32F),
                 "cublasLtMatmulDescCreate");
    set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, key.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, key.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, key.epilogue);
    // Bias, sums and auxiliary matrix have D's type, the default.
    if (has_auxiliary(key.epilogue)) {
      set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.n);
      set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
          address_aligned_to(key.alignments[ProductKey::kGeluInput]));
    }
    if (has_vector(key.epilogue))
      set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
          address_aligned_to(key.alignments[ProductKey::kVector]));
    layout(a_, key.in, key.transpose_b ? key.k : key.n, key.transpose_b ? key.n : key.k);
    layout(b_, key.in, key.transpose_a ? key.m : key.k, key.transpose_a ? key.k : key.m);
    layout(c_, key.out, key.n, key.m);
  } catch (...) {
    destroy();
    throw;
  }
}

CublasLtProblem::~CublasLtProblem() { destroy(); }

void CublasLtProblem::destroy() {
  for (const cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  }
  if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
}

CublasLtProblem::Candidates CublasLtProblem::candidates(cublasLtHandle_t library, int most) const {
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkSpaceBytes);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key_.alignments[ProductKey::kB]);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key_.alignments[ProductKey::kA]);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key_.alignments[ProductKey::kAdded]);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key_.alignments[ProductKey::kC]);
  // Requires that partial sums over k of several blocks are added in float, not in c's type, and in
  // a fixed order.
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  std::vector<cublasLtMatmulHeuristicResult_t> results(most);
  int count = 0;
  Candidates found;
  found.status = cublasLtMatmulAlgoGetHeuristic(library, operation_, a_, b_, c_, c_,
                                                preference.get(), most, results.data(), &count);
  if (!is_refusal(found.status)) check_cublas(found.status, "cublasLtMatmulAlgoGetHeuristic");
  if (found.status != CUBLAS_STATUS_SUCCESS) return found;
  for (int i = 0; i < count; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS) found.algorithms.push_back(results[i].algo);
  }
  return found;
}

bool CublasLtProblem::accepts(cublasLtHandle_t library,
                              const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(library, operation_, a_, b_, c_, c_, &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kWorkSpaceBytes;
}

cublasStatus_t CublasLtProblem::queue(cublasLtHandle_t library, const MatrixProduct& p,
                                      const cublasLtMatmulAlgo_t& algorithm, void* work_space,
                                      StreamHandle stream) {
  if (has_vector(key_.epilogue))
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_or_sums(p));
  if (has_auxiliary(key_.epilogue))
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.gelu_input);
  const float one = 1, beta = p.accumulate || p.addend != nullptr ? 1 : 0;
  return cublasLtMatmul(library, operation_, &one, p.b, a_, p.a, b_, &beta, added(p), c_, p.c, c_,
                        &algorithm, work_space, kWorkSpaceBytes, stream);
}

}  // namespace weft::cuda
