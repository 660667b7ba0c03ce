// Tests the GPU's matrix products on a cuBLASLt double for the CPU: Weft's calls of the library,
// against the definition in launches.h. Also tests the double itself on worked examples.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/cuda/internal/cublaslt_products.h"
#include "core/tensor/bfloat16.h"
#include "tests/contract/kernels/cublaslt_double.h"
#include "tests/contract/kernels/cuda_runtime_double.h"

namespace weft::test {
namespace {

using cuda::Epilogue;
using cuda::MatrixProduct;

cuda::StreamHandle some_stream() { return reinterpret_cast<cuda::StreamHandle>(&cublaslt_double); }

// --- the double ---

struct LtMatrix {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t ld;
};

/// Product, computed as a user of the library does.
struct LtProduct {
  LtMatrix a, b, d;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  std::int64_t aux_ld = 0;
  float beta = 0;

  cublasStatus_t run(const void* a_data, const void* b_data, void* d_data) const {
    cublasLtHandle_t handle = nullptr;
    cublasLtMatmulDesc_t op = nullptr;
    cublasLtMatrixLayout_t layouts[3] = {};
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      EXPECT_EQ(cublasLtMatmulDescSetAttribute(op, attribute, &value, sizeof value),
                CUBLAS_STATUS_SUCCESS);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, transpose_a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, transpose_b);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_ld);
    const LtMatrix* const matrices[3] = {&a, &b, &d};
    for (int i = 0; i < 3; ++i)
      cublasLtMatrixLayoutCreate(&layouts[i], matrices[i]->type, matrices[i]->rows,
                                 matrices[i]->columns, matrices[i]->ld);
    cublasLtMatmulPreferenceCreate(&preference);
    const std::uint32_t alignment = 4;
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &alignment, sizeof alignment);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, op, layouts[0], layouts[1], layouts[2], layouts[2], preference, 1, &found, &count);
    const float alpha = 1;
    if (status == CUBLAS_STATUS_SUCCESS) {
      status =
          cublasLtMatmul(handle, op, &alpha, a_data, layouts[0], b_data, layouts[1], &beta, d_data,
                         layouts[2], d_data, layouts[2], &found.algo, nullptr, 0, some_stream());
    }
    cublasLtMatmulPreferenceDestroy(preference);
    for (const cublasLtMatrixLayout_t layout : layouts) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(op);
    cublasLtDestroy(handle);
    return status;
  }
};

constexpr float kPad = -1;
// kA is [[1, 2, 3], [4, 5, 6]] with two numbers between columns; kB is the transpose of [[7, 8],
// [9, 10], [11, 12]].
const std::vector<float> kA{1, 4, kPad, kPad, 2, 5, kPad, kPad, 3, 6, kPad, kPad},
    kB{7, 8, 9, 10, 11, 12};
LtProduct example() {
  return {.a = {CUDA_R_32F, 2, 3, 4},
          .b = {CUDA_R_32F, 2, 3, 2},
          .d = {CUDA_R_32F, 2, 2, 3},
          .transpose_b = CUBLAS_OP_T};
}

TEST(CublasLtDouble, MatricesLieColumnByColumn) {
  std::vector<float> d(6, kPad);
  EXPECT_EQ(example().run(kA.data(), kB.data(), d.data()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(d, (std::vector<float>{58, 139, kPad, 64, 154, kPad}));
}

TEST(CublasLtDouble, BetaAddsWhatDHolds) {
  std::vector<float> d{1, 2, kPad, 3, 4, kPad};
  LtProduct product = example();
  product.beta = 10;
  EXPECT_EQ(product.run(kA.data(), kB.data(), d.data()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(d, (std::vector<float>{68, 159, kPad, 94, 194, kPad}));
}

TEST(CublasLtDouble, BiasHasAnElementPerRowOfD) {
  std::vector<float> d(6, kPad), bias{100, 200};
  LtProduct product = example();
  product.epilogue = CUBLASLT_EPILOGUE_BIAS;
  product.bias = bias.data();
  EXPECT_EQ(product.run(kA.data(), kB.data(), d.data()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(d, (std::vector<float>{158, 339, kPad, 164, 354, kPad}));
}

TEST(CublasLtDouble, TheBiasGradientOfAIsTheSumOfItsColumns) {
  std::vector<float> d(6, kPad), sums(2);
  LtProduct product = example();
  product.epilogue = CUBLASLT_EPILOGUE_BGRADA;
  product.bias = sums.data();
  EXPECT_EQ(product.run(kA.data(), kB.data(), d.data()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(sums, (std::vector<float>{6, 15}));
  EXPECT_EQ(d[1], 139);
}

TEST(CublasLtDouble, RefusesTheCallsThatTheDocumentationForbids) {
  std::vector<float> d(6, kPad);
  alignas(16) float aux[16];
  LtProduct product = example();
  product.a.type = CUDA_R_16BF;  // B is not bf16
  EXPECT_EQ(product.run(kA.data(), kB.data(), d.data()), CUBLAS_STATUS_NOT_SUPPORTED);
  product = example();
  product.transpose_b = CUBLAS_OP_N;  // 2 x 3 times 2 x 3
  EXPECT_EQ(product.run(kA.data(), kB.data(), d.data()), CUBLAS_STATUS_INVALID_VALUE);
  product = example();
  product.d.ld = 1;
  EXPECT_EQ(product.run(kA.data(), kB.data(), d.data()), CUBLAS_STATUS_INVALID_VALUE);
  product = example();
  product.epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
  product.aux = aux;
  product.aux_ld = 4;  // not a multiple of 8
  EXPECT_EQ(product.run(kA.data(), kB.data(), d.data()), CUBLAS_STATUS_INVALID_VALUE);
  product.aux_ld = 8;
  EXPECT_EQ(product.run(kA.data(), kB.data(), d.data()), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(aux[8], 64);  // input of GELU
  EXPECT_EQ(d, (std::vector<float>{58, 139, kPad, 64, 154, kPad}));
}

// --- Weft's products ---

/// Elements of one type, `offset` bytes behind a 256-byte boundary, between guard bytes that must
/// not change.
class Buffer {
 public:
  Buffer(DType type, std::int64_t size, std::size_t offset)
      : type_(type), size_(size), memory_(2 * kGap + bytes(size) + offset) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    begin_ = kGap + (256 - address % 256) % 256 + offset;
    for (std::byte& b : memory_) b = std::byte{kMark};
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() { return memory_.data() + begin_; }
  float get(std::int64_t i) {
    return type_ == DType::kBF16 ? static_cast<float>(static_cast<BFloat16*>(data())[i])
                                 : static_cast<float*>(data())[i];
  }
  void set(std::int64_t i, float value) {
    if (type_ == DType::kBF16) {
      static_cast<BFloat16*>(data())[i] = BFloat16(value);
    } else {
      static_cast<float*>(data())[i] = value;
    }
  }
  std::vector<float> values() {
    std::vector<float> all;
    for (std::int64_t i = 0; i < size_; ++i) all.push_back(get(i));
    return all;
  }
  bool surroundings_are_whole() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if ((i < begin_ || i >= begin_ + bytes(size_)) && memory_[i] != std::byte{kMark})
        return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGap = 512;
  static constexpr unsigned char kMark = 0xa5;
  std::size_t bytes(std::int64_t elements) const { return elements * size_of(type_); }

  DType type_;
  std::int64_t size_;
  std::vector<std::byte> memory_;
  std::size_t begin_ = 0;
};

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

class CublasLtProducts : public testing::Test {
 protected:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool one_of(int n) { return between(1, n) == 1; }
  std::unique_ptr<Buffer> numbers(DType type, std::int64_t size) {
    const std::size_t offsets[] = {0, 0, 16, size_of(type)};
    auto buffer = std::make_unique<Buffer>(type, size, offsets[between(0, 3)]);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < size; ++i) buffer->set(i, normal(random_));
    return buffer;
  }

  std::mt19937 random_{7};
};

TEST_F(CublasLtProducts, EqualTheirDefinition) {
  cuda::CublasLtProducts products(
      {.note = [](const std::string& refusal) { ADD_FAILURE() << refusal; }});
  int done = 0;
  for (int round = 0; round < 600; ++round) {
    MatrixProduct p;
    p.in = one_of(2) ? DType::kF32 : DType::kBF16;
    p.out = one_of(3) ? DType::kF32 : p.in;
    p.m = between(1, 20);
    p.n = one_of(2) ? 8 * between(1, 4) : between(1, 20);
    p.k = between(1, 40);
    p.transpose_a = one_of(2);
    p.transpose_b = one_of(2);
    const auto a = numbers(p.in, p.m * p.k), b = numbers(p.in, p.k * p.n),
               bias = numbers(p.in, p.n), sums = numbers(DType::kF32, p.n);
    const auto c = numbers(p.out, p.m * p.n), addend = numbers(p.out, p.m * p.n),
               aux = numbers(p.out, p.m * p.n);
    p.a = a->data();
    p.b = b->data();
    p.c = c->data();
    const bool same_type = p.in == p.out;
    if (same_type && one_of(2)) p.bias = bias->data();
    switch (between(0, 4)) {
      case 0: p.accumulate = p.out == DType::kF32; break;
      case 1: p.addend = addend->data(); break;
      case 2:
        if (!same_type) break;
        p.epilogue = Epilogue::kGelu;
        if (one_of(2)) p.gelu_input = aux->data();
        break;
      case 3:
        if (!same_type) break;
        p.epilogue = Epilogue::kGeluGrad;
        p.gelu_input = aux->data();
        p.bias = nullptr;
        break;
      default:
        if (p.out != DType::kF32) break;
        p.b_row_sums = static_cast<float*>(sums->data());
        p.bias = nullptr;
        p.accumulate = one_of(2);
    }
    SCOPED_TRACE(std::to_string(p.m) + " x " + std::to_string(p.n) + " x " + std::to_string(p.k) +
                 ", epilogue " + std::to_string(static_cast<int>(p.epilogue)) +
                 (p.transpose_a ? ", a transposed" : "") + (p.transpose_b ? ", b transposed" : "") +
                 (p.bias != nullptr ? ", bias" : "") + ", round " + std::to_string(round));
    const std::vector<float> old = c->values(), old_aux = aux->values();

    const bool suits_aux =
        p.gelu_input == nullptr ||
        (p.n % 8 == 0 && reinterpret_cast<std::uintptr_t>(p.gelu_input) % 16 == 0);
    ASSERT_EQ(products.multiply(p, some_stream()), suits_aux);
    if (!suits_aux) {
      EXPECT_EQ(c->values(), old);
      continue;
    }
    ++done;
    EXPECT_EQ(cublaslt_double.stream, some_stream());
    const double relative = p.out == DType::kBF16 ? 1.0 / 200 : 1e-4;
    const auto near = [&](double is, double should) {
      return std::abs(is - should) <= relative * std::abs(should) + 1e-4;
    };
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        const std::int64_t at = i * p.n + j;
        double sum = p.bias != nullptr ? bias->get(j) : 0;
        for (std::int64_t l = 0; l < p.k; ++l)
          sum += double{a->get(p.transpose_a ? l * p.m + i : i * p.k + l)} *
                 b->get(p.transpose_b ? j * p.k + l : l * p.n + j);
        if (p.accumulate) sum += old[at];
        if (p.addend != nullptr) sum += addend->get(at);
        double should = sum;
        if (p.epilogue == Epilogue::kGelu) {
          should = gelu(sum);
          if (p.gelu_input != nullptr) {
            EXPECT_TRUE(near(aux->get(at), sum)) << aux->get(at) << " for " << sum;
          }
        } else if (p.epilogue == Epilogue::kGeluGrad) {
          should = sum * gelu_slope(aux->get(at));
        }
        ASSERT_TRUE(near(c->get(at), should))
            << "[" << i << "][" << j << "] is " << c->get(at) << ", should be " << should;
      }
    }
    if (p.b_row_sums != nullptr) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < p.k; ++l)
          sum += b->get(p.transpose_b ? j * p.k + l : l * p.n + j);
        ASSERT_TRUE(near(sums->get(j), sum)) << "sum " << j;
      }
    }
    if (p.epilogue != Epilogue::kGelu) {
      EXPECT_EQ(aux->values(), old_aux);
    }
    for (const auto& buffer : {&a, &b, &c, &bias, &sums, &addend, &aux})
      EXPECT_TRUE((*buffer)->surroundings_are_whole());
  }
  EXPECT_GT(done, 400);
}

/// Alignments from 16 bytes on must not change the algorithm: memory of equal work is aligned to 64
/// bytes in one layout and to 256 in another, and must give equal bits.
TEST_F(CublasLtProducts, UseOneAlgorithmAtAllAddressesAlignedTo16Bytes) {
  cuda::CublasLtProducts products(
      {.note = [](const std::string& refusal) { ADD_FAILURE() << refusal; }});
  const auto a = std::make_unique<Buffer>(DType::kBF16, 512, 0),
             b = std::make_unique<Buffer>(DType::kBF16, 512, 0),
             c = std::make_unique<Buffer>(DType::kBF16, 512, 0),
             bias = std::make_unique<Buffer>(DType::kBF16, 512, 0),
             aux = std::make_unique<Buffer>(DType::kBF16, 512, 0);
  MatrixProduct p{
      .in = DType::kBF16, .out = DType::kBF16, .m = 8, .n = 8, .k = 8, .epilogue = Epilogue::kGelu};
  const int before = cublaslt_double.queries;
  for (const std::size_t offset : {256, 16, 64, 128, 0, 48}) {
    const auto at = [&](const auto& buffer) {
      return static_cast<std::byte*>(buffer->data()) + offset;
    };
    p.a = at(a);
    p.b = at(b);
    p.c = at(c);
    p.bias = at(bias);
    p.gelu_input = at(aux);
    EXPECT_TRUE(products.multiply(p, some_stream())) << offset;
  }
  EXPECT_EQ(cublaslt_double.queries - before, 1);
}

TEST_F(CublasLtProducts, AnAlgorithmServesOnlyTheAlignmentsThatItWasFoundFor) {
  cuda::CublasLtProducts products({});
  const auto a = std::make_unique<Buffer>(DType::kBF16, 64, 0),
             b = std::make_unique<Buffer>(DType::kBF16, 64, 0),
             c = std::make_unique<Buffer>(DType::kBF16, 64, 0),
             bias = std::make_unique<Buffer>(DType::kBF16, 16, 0);
  MatrixProduct p{.in = DType::kBF16,
                  .out = DType::kBF16,
                  .a = a->data(),
                  .b = b->data(),
                  .c = c->data(),
                  .m = 8,
                  .n = 8,
                  .k = 8};
  const int before = cublaslt_double.queries;
  for (const std::size_t offset : {0, 2, 16, 2, 0}) {
    p.bias = static_cast<std::byte*>(bias->data()) + offset;
    EXPECT_TRUE(products.multiply(p, some_stream())) << offset;
  }
  EXPECT_EQ(cublaslt_double.queries - before, 2);
}

TEST_F(CublasLtProducts, TellWhatTheLibraryRefusesWhenTheyFindOut) {
  std::vector<std::string> told;
  cuda::CublasLtProducts products(
      {.note = [&](const std::string& refusal) { told.push_back(refusal); }});
  const auto a = numbers(DType::kF32, 64), b = numbers(DType::kF32, 64),
             c = numbers(DType::kBF16, 64);
  const MatrixProduct p{.in = DType::kF32,
                        .out = DType::kBF16,
                        .a = a->data(),
                        .b = b->data(),
                        .c = c->data(),
                        .m = 8,
                        .n = 8,
                        .k = 8};
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(products.multiply(p, some_stream()));
  EXPECT_EQ(told,
            (std::vector<std::string>{
                "cuBLASLt does not support a product of 8 x 8 x 8 of f32 to bf16 with epilogue 1: "
                "cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED"}));
}

TEST_F(CublasLtProducts, LeaveNothingBehind) {
  const int before = cublaslt_double.objects;
  const std::size_t blocks = cuda_runtime_double.blocks.size();
  {
    cuda::CublasLtProducts products({});
    const auto a = numbers(DType::kF32, 64), b = numbers(DType::kF32, 64),
               c = numbers(DType::kF32, 64);
    const MatrixProduct p{.a = a->data(), .b = b->data(), .c = c->data(), .m = 8, .n = 8, .k = 8};
    EXPECT_TRUE(products.multiply(p, some_stream()));
    EXPECT_GT(cublaslt_double.objects, before);
  }
  EXPECT_EQ(cublaslt_double.objects, before);
  EXPECT_EQ(cuda_runtime_double.blocks.size(), blocks);
}

TEST_F(CublasLtProducts, MayRoundFactorsToTf32WhereTheyAreAskedTo) {
  const auto a = std::make_unique<Buffer>(DType::kF32, 1, 0),
             b = std::make_unique<Buffer>(DType::kF32, 1, 0),
             c = std::make_unique<Buffer>(DType::kF32, 1, 0);
  a->set(0, 1 + 1.0f / 4096);
  b->set(0, 1);
  const MatrixProduct p{.a = a->data(), .b = b->data(), .c = c->data(), .m = 1, .n = 1, .k = 1};
  EXPECT_TRUE(cuda::CublasLtProducts({}).multiply(p, some_stream()));
  EXPECT_EQ(c->get(0), 1 + 1.0f / 4096);
  EXPECT_TRUE(cuda::CublasLtProducts({.tf32 = true}).multiply(p, some_stream()));
  EXPECT_EQ(c->get(0), 1);
}

}  // namespace
}  // namespace weft::test
