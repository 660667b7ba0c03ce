#include "core/cuda/internal/cublaslt_products.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/cuda/internal/cublaslt_problem.h"
#include "core/cuda/internal/cuda_check.h"
#include "core/cuda/internal/free_on_device.h"
#include "core/cuda/internal/product_choices.h"
#include "core/cuda/internal/stream_timer.h"

namespace weft::cuda {
namespace {

/// Number of algorithms that the library proposes for a product.
constexpr int kCandidates = 8;
/// Least gain, as a share of the time, for which a later candidate replaces an earlier one.
/// Smaller differences are noise, and would give machines with equal GPUs different choices.
constexpr double kLeastGain = 0.02;

using Algorithm = cublasLtMatmulAlgo_t;

/// Algorithms of one product, and the one to be used.
struct ProductPlan {
  explicit ProductPlan(const ProductKey& key) : problem(key) {}
  CublasLtProblem problem;
  std::vector<Algorithm> candidates;   ///< Best first, by the library's estimate.
  std::optional<Algorithm> algorithm;  ///< Null if the library has none or two parts are faster.
};

ProductAlgorithm bytes_of(const Algorithm& algorithm) {
  return std::bit_cast<ProductAlgorithm>(algorithm);
}
Algorithm algorithm_of(const ProductAlgorithm& bytes) { return std::bit_cast<Algorithm>(bytes); }

bool is_recording(StreamHandle stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing");
  return capture != cudaStreamCaptureStatusNone;
}

/// Returns "NVIDIA H200, sm_90, cuBLASLt 130002": all that a choice depends on besides the product.
std::string gpu_and_library() {
  int gpu = 0;
  check_cuda(cudaGetDevice(&gpu), "cudaGetDevice");
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
  return fmt::format("{}, sm_{}{}, cuBLASLt {}", properties.name, properties.major,
                     properties.minor, cublasLtGetVersion());
}

/// Product whose queueing changes nothing that later work reads: if it adds to c, it has other
/// memory of zeros for c. Other results are overwritten, as by the product that is queued
/// afterwards.
class Rehearsal final {
 public:
  Rehearsal(const MatrixProduct& product, StreamHandle stream)
      : product_(product), stream_(stream) {
    if (!product.accumulate) return;
    // The same alignment as c's, so that the product has the same key.
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(product.c) % 16;
    const std::size_t bytes = product.m * product.n * size_of(product.out) + offset;
    check_cuda(cudaMallocAsync(&memory_, bytes, stream), "scratch memory");
    cudaMemsetAsync(memory_, 0, bytes, stream);
    product_.c = static_cast<std::byte*>(memory_) + offset;
  }
  ~Rehearsal() {
    if (memory_ != nullptr) cudaFreeAsync(memory_, stream_);
  }
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;
  const MatrixProduct& product() const { return product_; }

 private:
  MatrixProduct product_;
  const StreamHandle stream_;
  void* memory_ = nullptr;
};

struct DestroyLibrary {
  void operator()(cublasLtHandle_t library) const { cublasLtDestroy(library); }
};

}  // namespace

class CublasLtProducts::Impl {
 public:
  explicit Impl(CublasLtOptions options)
      : options_(std::move(options)), choices_(options_.choices, options_.note) {
    cublasLtHandle_t library = nullptr;
    check_cublas(cublasLtCreate(&library), "cublasLtCreate");
    library_.reset(library);
    void* work_space = nullptr;
    check_cuda(cudaMalloc(&work_space, CublasLtProblem::kWorkSpaceBytes),
               "the work space of matrix products");
    work_space_.reset(work_space);
    if (options_.measure) place_ = gpu_and_library();
  }
  bool multiply(const MatrixProduct& p, StreamHandle stream, const TwoParts& two_parts) {
    const std::optional<ProductKey> key = product_key(p, options_.tf32);
    if (!key) return false;
    ProductPlan& plan = plan_for(*key, p, stream, two_parts);
    if (!plan.algorithm) return false;
    const cublasStatus_t status =
        plan.problem.queue(library_.get(), p, *plan.algorithm, work_space_.get(), stream);
    if (is_refusal(status)) {
      plan.algorithm.reset();  // rejected although the library had offered it
      note_unsupported(*key, "cublasLtMatmul", status);
      return false;
    }
    check_cublas(status, "cublasLtMatmul");
    return true;
  }

 private:
  void note_unsupported(const ProductKey& key, const char* call, cublasStatus_t status) {
    options_.note(fmt::format(
        "cuBLASLt does not support a product of {}: {}: {}", to_string(key), call,
        status == CUBLAS_STATUS_SUCCESS ? "no algorithm" : cublasLtGetStatusName(status)));
  }

  ProductPlan& plan_for(const ProductKey& key, const MatrixProduct& p, StreamHandle stream,
                        const TwoParts& two_parts) {
    if (const auto found = plans_.find(key); found != plans_.end()) return *found->second;
    auto plan = std::make_unique<ProductPlan>(key);
    CublasLtProblem::Candidates found = plan->problem.candidates(library_.get(), kCandidates);
    plan->candidates = std::move(found.algorithms);
    if (plan->candidates.empty()) {
      note_unsupported(key, "cublasLtMatmulAlgoGetHeuristic", found.status);
    } else {
      plan->algorithm = choose(*plan, p, stream, two_parts);
    }
    return *plans_.emplace(key, std::move(plan)).first->second;
  }

  /// Returns the algorithm to be used; null for two parts.
  std::optional<Algorithm> choose(ProductPlan& plan, const MatrixProduct& p, StreamHandle stream,
                                  const TwoParts& two_parts) {
    const Algorithm first = plan.candidates.front();
    if (!options_.measure || (plan.candidates.size() == 1 && !two_parts)) return first;
    const std::string name = fmt::format("{}: {}", place_, to_full_text(plan.problem.key()));
    const auto accepts = [&](const ProductChoice& stored) {
      return stored.algorithm
                 ? plan.problem.accepts(library_.get(), algorithm_of(*stored.algorithm))
                 : two_parts != nullptr;
    };
    std::optional<ProductChoice> choice = choices_.find(name, accepts);
    const bool may_measure = choices_.usable() || !options_.deterministic;
    if (!choice && may_measure && !is_recording(stream))
      choice = measured(name, accepts, plan, p, stream, two_parts);
    if (!choice) return first;
    if (!choice->algorithm) return std::nullopt;
    return algorithm_of(*choice->algorithm);
  }

  /// Returns the choice that this process or another one measured. Null if there is none that later
  /// runs would know too, or if no algorithm works.
  std::optional<ProductChoice> measured(const std::string& name,
                                        const ProductChoiceFile::Accepts& accepts,
                                        ProductPlan& plan, const MatrixProduct& p,
                                        StreamHandle stream, const TwoParts& two_parts) {
    try {
      const Rehearsal rehearsal(p, stream);
      // Chooses the algorithm of the plain product before the file is locked.
      if (two_parts) two_parts(rehearsal.product());
      // Earlier work may wait for other processes, which may wait for the lock.
      check_cuda(cudaStreamSynchronize(stream), "work queued before a matrix product");
      const auto measure = [&] { return fastest(plan, rehearsal.product(), stream, two_parts); };
      std::optional<ProductChoice> choice = choices_.find_or_store(name, accepts, measure);
      if (!choice && !choices_.usable() && !options_.deterministic) choice = measure();
      return choice;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kResourceExhausted) throw;
      options_.note(fmt::format(
          "cuBLASLt's first answer is used for a product of {}, as there is no memory to measure "
          "others: {}",
          to_string(plan.problem.key()), error.message()));
      return std::nullopt;
    }
  }

  /// Measures all candidates and two parts. Returns null if no candidate works.
  std::optional<ProductChoice> fastest(ProductPlan& plan, const MatrixProduct& p,
                                       StreamHandle stream, const TwoParts& two_parts) {
    StreamTimer timer(stream);
    std::optional<ProductChoice> best;
    const auto offer = [&](std::optional<ProductAlgorithm> algorithm,
                           const std::function<bool()>& queue) {
      const double least = best ? best->microseconds : std::numeric_limits<double>::infinity();
      const std::optional<double> time = timer.time(queue, least);
      if (time && *time < (1 - kLeastGain) * least)
        best = {.algorithm = algorithm, .microseconds = *time};
    };
    for (const Algorithm& candidate : plan.candidates) {
      offer(bytes_of(candidate), [&] {
        const cublasStatus_t status =
            plan.problem.queue(library_.get(), p, candidate, work_space_.get(), stream);
        if (status != CUBLAS_STATUS_SUCCESS) cudaGetLastError();  // the next launch would report it
        return status == CUBLAS_STATUS_SUCCESS;
      });
    }
    if (!best) return std::nullopt;
    if (two_parts)
      offer(std::nullopt, [&] {
        two_parts(p);
        return true;
      });
    best->microseconds = std::round(100 * best->microseconds) / 100;
    return best;
  }

  const CublasLtOptions options_;
  std::unique_ptr<cublasLtContext, DestroyLibrary> library_;
  std::unique_ptr<void, FreeOnDevice> work_space_;
  std::string place_;  ///< GPU and library, as in the file.
  ProductChoiceFile choices_;
  std::map<ProductKey, std::unique_ptr<ProductPlan>> plans_;
};

CublasLtProducts::CublasLtProducts(CublasLtOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
CublasLtProducts::~CublasLtProducts() = default;
bool CublasLtProducts::multiply(const MatrixProduct& product, StreamHandle stream) {
  return impl_->multiply(product, stream, nullptr);
}
bool CublasLtProducts::multiply_fused(const MatrixProduct& product, StreamHandle stream,
                                      const TwoParts& two_parts) {
  return impl_->multiply(product, stream, two_parts);
}

}  // namespace weft::cuda
