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
// (BGRADA). Weft's own kernels run products that it rejects.
#include "core/cuda/internal/cublaslt_products.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/cuda/internal/cuda_check.h"

namespace weft::cuda {
namespace {

/// Work space size that NVIDIA recommends for Hopper.
constexpr std::size_t kWorkSpaceBytes = std::size_t{32} << 20;

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

/// Owner of a cuBLASLt descriptor.
template <typename Handle, cublasStatus_t (*Destroy)(Handle)>
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (handle_ != nullptr) Destroy(handle_);
  }
  Handle* address() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using Layout = Descriptor<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Operation = Descriptor<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Descriptor<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <typename T>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
}
template <typename T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check_cublas(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
      "cublasLtMatmulPreferenceSetAttribute");
}

/// Key of a plan: all properties that affect the choice of an algorithm.
using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, DType, DType, bool, bool,
                       cublasLtEpilogue_t, bool, std::array<std::uint32_t, 6>>;

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

/// Returns true for the statuses with which the library rejects a valid call.
bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

struct Plan {
  Operation operation;
  Layout a, b, c;
  std::optional<cublasLtMatmulAlgo_t> algorithm;  ///< Null if the library has none.
};

}  // namespace

class CublasLtProducts::Impl {
 public:
  Impl(bool tf32, std::function<void(const std::string&)> note)
      : f32_compute_(tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F),
        note_(std::move(note)) {
    check_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
    check_cuda(cudaMalloc(&work_space_, kWorkSpaceBytes), "the work space of matrix products");
  }
  ~Impl() {
    plans_.clear();
    cudaFree(work_space_);
    cublasLtDestroy(handle_);
  }

  bool multiply(const MatrixProduct& p, StreamHandle stream) {
    const std::optional<cublasLtEpilogue_t> epilogue = epilogue_of(p);
    if (!epilogue || (p.gelu_input != nullptr && !suits_auxiliary(p))) return false;
    Plan& plan = plan_for(p, *epilogue);
    if (!plan.algorithm) return false;
    set_pointers(plan.operation, bias_or_sums(p), p.gelu_input);
    const float one = 1, beta = p.accumulate || p.addend != nullptr ? 1 : 0;
    const cublasStatus_t status = cublasLtMatmul(
        handle_, plan.operation.get(), &one, p.b, plan.a.get(), p.a, plan.b.get(), &beta, added(p),
        plan.c.get(), p.c, plan.c.get(), &*plan.algorithm, work_space_, kWorkSpaceBytes, stream);
    if (is_refusal(status)) {
      plan.algorithm.reset();  // rejected although the library had offered it
      note_unsupported(p, *epilogue, "cublasLtMatmul", status);
      return false;
    }
    check_cublas(status, "cublasLtMatmul");
    return true;
  }

 private:
  void note_unsupported(const MatrixProduct& p, cublasLtEpilogue_t epilogue, const char* call,
                        cublasStatus_t status) {
    note_(fmt::format(
        "cuBLASLt does not support a product of {} x {} x {}{}{} of {} to {} with epilogue {}{}: "
        "{}: {}",
        p.m, p.n, p.k, p.transpose_a ? ", a transposed" : "", p.transpose_b ? ", b transposed" : "",
        to_string(p.in), to_string(p.out), static_cast<int>(epilogue),
        p.addend != nullptr ? ", added to another" : "", call,
        status == CUBLAS_STATUS_SUCCESS ? "no algorithm" : cublasLtGetStatusName(status)));
  }

  static void set_pointers(const Operation& operation, const void* vector, void* gelu_input) {
    if (vector != nullptr) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    if (gelu_input != nullptr)
      set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, gelu_input);
  }

  Plan& plan_for(const MatrixProduct& p, cublasLtEpilogue_t epilogue) {
    const std::array<std::uint32_t, 6> alignments{
        alignment_of(p.a),      alignment_of(p.b),          alignment_of(p.c),
        alignment_of(added(p)), alignment_of(p.gelu_input), alignment_of(bias_or_sums(p))};
    const Key key{p.m,           p.n,      p.k,
                  p.in,          p.out,    p.transpose_a,
                  p.transpose_b, epilogue, p.addend != nullptr,
                  alignments};
    const auto [at, is_new] = plans_.try_emplace(key);
    if (!is_new) return *at->second;
    try {
      at->second = make_plan(p, epilogue, alignments);
    } catch (...) {
      plans_.erase(at);
      throw;
    }
    return *at->second;
  }

  std::unique_ptr<Plan> make_plan(const MatrixProduct& p, cublasLtEpilogue_t epilogue,
                                  const std::array<std::uint32_t, 6>& alignments) {
    auto plan = std::make_unique<Plan>();
    const cublasComputeType_t compute = p.in == DType::kF32 ? f32_compute_ : CUBLAS_COMPUTE_32F;
    check_cublas(cublasLtMatmulDescCreate(plan->operation.address(), compute, CUDA_R_32F),
                 "cublasLtMatmulDescCreate");
    set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    // Bias, sums and auxiliary matrix have D's type, the default.
    if (p.gelu_input != nullptr) set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n);
    set_pointers(plan->operation,
                 bias_or_sums(p) != nullptr ? address_aligned_to(alignments[5]) : nullptr,
                 p.gelu_input != nullptr ? address_aligned_to(alignments[4]) : nullptr);
    const auto layout = [](Layout& to, DType type, std::int64_t rows, std::int64_t columns) {
      check_cublas(cublasLtMatrixLayoutCreate(to.address(), cuda_type(type), rows, columns, rows),
                   "cublasLtMatrixLayoutCreate");
    };
    layout(plan->a, p.in, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k);
    layout(plan->b, p.in, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m);
    layout(plan->c, p.out, p.n, p.m);

    Preference preference;
    check_cublas(cublasLtMatmulPreferenceCreate(preference.address()),
                 "cublasLtMatmulPreferenceCreate");
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkSpaceBytes);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments[1]);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments[0]);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments[3]);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments[2]);
    // Requires that partial sums over k of several blocks are added in float, not in c's type.
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    cublasLtMatmulHeuristicResult_t best{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, plan->operation.get(), plan->a.get(), plan->b.get(), plan->c.get(), plan->c.get(),
        preference.get(), 1, &best, &count);
    if (!is_refusal(status)) check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    if (status == CUBLAS_STATUS_SUCCESS && count > 0 && best.state == CUBLAS_STATUS_SUCCESS)
      plan->algorithm = best.algo;
    if (!plan->algorithm) note_unsupported(p, epilogue, "cublasLtMatmulAlgoGetHeuristic", status);
    return plan;
  }

  cublasComputeType_t f32_compute_;
  cublasLtHandle_t handle_ = nullptr;
  void* work_space_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  const std::function<void(const std::string&)> note_;
};

CublasLtProducts::CublasLtProducts(bool tf32, std::function<void(const std::string&)> note)
    : impl_(std::make_unique<Impl>(tf32, std::move(note))) {}
CublasLtProducts::~CublasLtProducts() = default;
bool CublasLtProducts::multiply(const MatrixProduct& product, StreamHandle stream) {
  return impl_->multiply(product, stream);
}

}  // namespace weft::cuda
