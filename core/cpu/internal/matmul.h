#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

namespace weft {

enum class Transpose : bool { kNo, kYes };

/// Matrix products by oneDNN. Row-major; `ld` is the distance between rows as stored. The only
/// place with dnnl calls.
///
/// c[M,N] = a[M,K] * b[K,N] + beta * c, where a and b are stored transposed if so said. The order
/// of additions depends on the sizes, the number of threads and the instruction set alone.
void gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n,
          std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc);

/// y[M,N] = x[M,K] * w[K,N] + bias[N] in one pass over y. Keeps one compiled primitive per size.
/// One thread at a time.
class BiasedMatmul final {
 public:
  BiasedMatmul();
  ~BiasedMatmul();
  void run(std::int64_t m, std::int64_t n, std::int64_t k, const float* x, const float* w,
           const float* bias, float* y);

 private:
  struct Engine;
  struct Compiled;
  std::unique_ptr<Engine> engine_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::unique_ptr<Compiled>>
      compiled_;
};

/// Threads that oneDNN may use in calls from the calling thread.
void set_matmul_threads(int threads);

}  // namespace weft
