#include "core/cpu/internal/matmul.h"

#include <oneapi/dnnl/dnnl.hpp>

#include "core/base/error.h"
#include "core/cpu/internal/onednn_engine.h"

// Declared here because clang's tools do not find GCC's omp.h. Defined by OpenMP's run-time
// library.
extern "C" void omp_set_num_threads(int threads);

namespace weft {

void gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n,
          std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc) {
  const auto letter = [](Transpose transpose) { return transpose == Transpose::kYes ? 'T' : 'N'; };
  const dnnl_status_t status = dnnl_sgemm(letter(transpose_a), letter(transpose_b), m, n, k, 1.0f,
                                          a, lda, b, ldb, beta, c, ldc);
  if (status != dnnl_success) {
    throw_error(ErrorCode::kInternal, "oneDNN failed in a matrix product of {}x{}x{} (status {})",
                m, n, k, static_cast<int>(status));
  }
}

struct BiasedMatmul::CompiledMatmul {
  dnnl::matmul matmul;
  dnnl::memory x, w, bias, y;
};

BiasedMatmul::BiasedMatmul() : engine_(std::make_unique<OneDnnEngine>()) {}
BiasedMatmul::~BiasedMatmul() = default;

void BiasedMatmul::run(std::int64_t m, std::int64_t n, std::int64_t k, const float* x,
                       const float* w, const float* bias, float* y) {
  std::unique_ptr<CompiledMatmul>& compiled = compiled_[{m, n, k}];
  try {
    if (!compiled) {
      const auto row_major = [](std::int64_t rows, std::int64_t columns) {
        return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32,
                                  dnnl::memory::format_tag::ab);
      };
      const dnnl::memory::desc xd = row_major(m, k), wd = row_major(k, n), bd = row_major(1, n),
                               yd = row_major(m, n);
      const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(xd, wd, bd, yd),
                                                     engine_->engine);
      const auto memory = [&](const dnnl::memory::desc& desc) {
        return dnnl::memory(desc, engine_->engine, DNNL_MEMORY_NONE);
      };
      compiled = std::make_unique<CompiledMatmul>(CompiledMatmul{
          dnnl::matmul(description), memory(xd), memory(wd), memory(bd), memory(yd)});
    }
    compiled->x.set_data_handle(const_cast<float*>(x));
    compiled->w.set_data_handle(const_cast<float*>(w));
    compiled->bias.set_data_handle(const_cast<float*>(bias));
    compiled->y.set_data_handle(y);
    compiled->matmul.execute(engine_->stream, {{DNNL_ARG_SRC, compiled->x},
                                               {DNNL_ARG_WEIGHTS, compiled->w},
                                               {DNNL_ARG_BIAS, compiled->bias},
                                               {DNNL_ARG_DST, compiled->y}});
    engine_->stream.wait();
  } catch (const dnnl::error& error) {
    throw_error(ErrorCode::kInternal, "oneDNN failed in a matrix product of {}x{}x{}: {}", m, n, k,
                error.what());
  }
}

void set_matmul_threads(int threads) { omp_set_num_threads(threads); }

}  // namespace weft
