#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

namespace weft {

struct OneDnnEngine;

enum class Transpose : bool { kNo, kYes };

/// Computes c[M,N] = a[M,K] * b[K,N] + beta * c with oneDNN. Matrices are row-major; `ld` is the
/// distance between stored rows. kYes means that the matrix is stored transposed. The order of
/// additions depends only on sizes, number of threads and instruction set.
void gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n,
          std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc);

/// Computes y[M,N] = x[M,K] * w[K,N] + bias[N] in one pass over y. Caches one compiled primitive
/// per size. Not thread-safe.
class BiasedMatmul final {
 public:
  BiasedMatmul();
  ~BiasedMatmul();
  void run(std::int64_t m, std::int64_t n, std::int64_t k, const float* x, const float* w,
           const float* bias, float* y);

 private:
  struct CompiledMatmul;
  std::unique_ptr<OneDnnEngine> engine_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::unique_ptr<CompiledMatmul>>
      compiled_;
};

/// Sets the number of threads that oneDNN uses in calls from the calling thread.
void set_matmul_threads(int threads);

}  // namespace weft
