// Tests the measuring of matrix products on a cuBLASLt double, whose algorithms take as long as a
// test says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "core/cuda/cuda_kernels.h"
#include "core/cuda/internal/cublaslt_products.h"
#include "core/cuda/internal/product_choices.h"
#include "core/tensor/bfloat16.h"
#include "tests/contract/kernels/cublaslt_double.h"
#include "tests/contract/kernels/cuda_runtime_double.h"
#include "tests/support/scratch_folder.h"

namespace weft::test {
namespace {

using cuda::CublasLtOptions;
using cuda::CublasLtProducts;
using cuda::Epilogue;
using cuda::MatrixProduct;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Times = std::vector<double>;

class MeasuredProducts : public testing::Test {
 protected:
  MeasuredProducts() { set_times({30, 10, 20}); }
  ~MeasuredProducts() override {
    cublaslt_double.times = nullptr;
    cuda_runtime_double.no_memory_in_stream = false;
  }

  static void set_times(Times all) {
    cublaslt_double.times = [=](std::uint32_t) { return all; };
  }
  CublasLtOptions options() {
    return {.measure = true, .choices = file_, .note = [this](const std::string& note) {
              notes_.push_back(note);
            }};
  }

  MatrixProduct plain(std::int64_t m = 8) {
    return {.a = a_, .b = b_, .c = c_, .m = m, .n = 8, .k = 8};
  }
  MatrixProduct gelu() {
    MatrixProduct p = plain();
    p.epilogue = Epilogue::kGelu;
    p.gelu_input = aux_;
    return p;
  }
  /// Returns the index of the algorithm that computes the product.
  int algorithm_of(CublasLtProducts& products, const MatrixProduct& p) {
    EXPECT_TRUE(products.multiply(p, nullptr));
    return cublaslt_double.algorithm;
  }
  int algorithm_of(const CublasLtOptions& options, const MatrixProduct& p) {
    CublasLtProducts products(options);
    return algorithm_of(products, p);
  }
  /// Returns the number of products that a call queues.
  template <typename Call>
  static int products_of(const Call& call) {
    const int before = cublaslt_double.products;
    call();
    return cublaslt_double.products - before;
  }
  std::string stored() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  ScratchFolder scratch_;
  const std::filesystem::path file_ = scratch_.path() / "cache" / "choices.jsonl";
  std::vector<std::string> notes_;
  alignas(256) float a_[128]{}, b_[128]{}, c_[128]{}, aux_[128]{};
};

TEST_F(MeasuredProducts, UseTheFastestAlgorithm) {
  CublasLtProducts products(options());
  EXPECT_EQ(algorithm_of(products, plain()), 1);
  EXPECT_EQ(products_of([&] { EXPECT_EQ(algorithm_of(products, plain()), 1); }), 1)
      << "measured again";
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_THAT(stored(), AllOf(HasSubstr("double, sm_90, cuBLASLt "), HasSubstr("8 x 8 x 8 of f32"),
                              HasSubstr("\"microseconds\":10.0")));
}

TEST_F(MeasuredProducts, UseTheLibrarysFirstAnswerUnlessAskedToMeasure) {
  CublasLtOptions asked = options();
  asked.measure = false;
  EXPECT_EQ(products_of([&] { EXPECT_EQ(algorithm_of(asked, plain()), 0); }), 1);
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(MeasuredProducts, PreferTheEarlierAlgorithmIfTheGainIsNoise) {
  set_times({10, 9.9, 11});
  EXPECT_EQ(algorithm_of(options(), plain()), 0);
}

TEST_F(MeasuredProducts, TryAtMostEightAlgorithms) {
  set_times({9, 9, 9, 9, 9, 9, 9, 8, 1});
  EXPECT_EQ(algorithm_of(options(), plain()), 7);
}

/// Long products must not delay the first step by much.
TEST_F(MeasuredProducts, RunLongAlgorithmsTwice) {
  set_times({5'000, 4'000});
  EXPECT_EQ(products_of([&] { EXPECT_EQ(algorithm_of(options(), plain()), 1); }), 2 * 2 + 1);
}

TEST_F(MeasuredProducts, SpendAFewMillisecondsOnShortAlgorithms) {
  for (const double time : {0.0, 1.0, 7.0, 60.0, 120.0, 499.0}) {
    set_times(Times(8, time));
    const double before = cuda_runtime_double.clock;
    CublasLtProducts products(options());
    algorithm_of(products, plain(static_cast<std::int64_t>(time) + 1 > 16 ? 16 : 1));
    EXPECT_LT(cuda_runtime_double.clock - before, 20'000) << time;
    std::filesystem::remove(file_);
  }
}

TEST_F(MeasuredProducts, DropAlgorithmsThatFail) {
  set_times({CublasLtDouble::kRefused, 20, 10, CublasLtDouble::kRefused});
  EXPECT_EQ(algorithm_of(options(), plain()), 2);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(MeasuredProducts, StoreNothingIfAllAlgorithmsFail) {
  set_times({CublasLtDouble::kRefused, CublasLtDouble::kRefused});
  EXPECT_FALSE(CublasLtProducts(options()).multiply(plain(), nullptr));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("cuBLASLt does not support a product of 8 x 8 x 8")));
  EXPECT_EQ(stored(), "");
}

// --- two parts ---

TEST_F(MeasuredProducts, RunInTwoPartsIfThatIsFaster) {
  set_times({30, 20});
  int runs = 0;
  const auto two_parts = [&](const MatrixProduct&) {
    ++runs;
    cuda_runtime_double.clock += 15;
  };
  CublasLtProducts products(options());
  EXPECT_FALSE(products.multiply_fused(gelu(), nullptr, two_parts));
  EXPECT_GT(runs, 1);
  runs = 0;
  EXPECT_FALSE(products.multiply_fused(gelu(), nullptr, two_parts));
  CublasLtProducts later(options());
  EXPECT_EQ(products_of([&] { EXPECT_FALSE(later.multiply_fused(gelu(), nullptr, two_parts)); }),
            0);
  EXPECT_EQ(runs, 0) << "measured again";
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_THAT(stored(), HasSubstr("\"two parts\""));
}

TEST_F(MeasuredProducts, RunFusedIfTwoPartsAreSlower) {
  set_times({30, 20});
  CublasLtProducts products(options());
  EXPECT_TRUE(products.multiply_fused(
      gelu(), nullptr, [&](const MatrixProduct&) { cuda_runtime_double.clock += 25; }));
  EXPECT_EQ(cublaslt_double.algorithm, 1);
}

TEST_F(MeasuredProducts, CompareOneFusedAlgorithmWithTwoParts) {
  set_times({30});
  const auto two_parts = [](const MatrixProduct&) { cuda_runtime_double.clock += 10; };
  EXPECT_FALSE(CublasLtProducts(options()).multiply_fused(gelu(), nullptr, two_parts));
}

// --- results ---

TEST_F(MeasuredProducts, AddToTheirResultOnce) {
  std::ranges::fill(a_, 1.0f);
  std::ranges::fill(b_, 2.0f);
  std::ranges::fill(c_, 100.0f);
  MatrixProduct p = plain();
  p.accumulate = true;
  EXPECT_EQ(algorithm_of(options(), p), 1);
  EXPECT_THAT(std::span(c_).first(64), testing::Each(116.0f));
  EXPECT_THAT(std::span(c_).subspan(64), testing::Each(100.0f));
}

/// Memory of another alignment would be another product.
TEST_F(MeasuredProducts, AreMeasuredAtTheAlignmentOfTheirResult) {
  MatrixProduct p = plain();
  p.accumulate = true;
  p.c = c_ + 1;
  EXPECT_EQ(algorithm_of(options(), p), 1);
  EXPECT_THAT(notes_, IsEmpty());
}

/// Runs ops by CudaKernels, which measures its products or not.
class MeasuredOps : public MeasuredProducts {
 protected:
  static constexpr std::int64_t kRows = 16, kIn = 8, kOut = 24;

  static std::vector<std::byte> values(const TensorType& type, float first) {
    std::vector<std::byte> bytes(type.elements() * size_of(type.dtype));
    for (std::int64_t i = 0; i < type.elements(); ++i) {
      const float value = std::sin(first + 0.7f * static_cast<float>(i));
      if (type.dtype == DType::kBF16) {
        reinterpret_cast<BFloat16*>(bytes.data())[i] = BFloat16(value);
      } else {
        reinterpret_cast<float*>(bytes.data())[i] = value;
      }
    }
    return bytes;
  }
  static std::vector<float> floats(const TensorType& type, const std::vector<std::byte>& bytes) {
    std::vector<float> all;
    for (std::int64_t i = 0; i < type.elements(); ++i)
      all.push_back(type.dtype == DType::kBF16
                        ? static_cast<float>(reinterpret_cast<const BFloat16*>(bytes.data())[i])
                        : reinterpret_cast<const float*>(bytes.data())[i]);
    return all;
  }

  struct Call {
    OpKind kind;
    std::vector<TensorType> inputs, outputs;
    bool accumulate = false;
  };
  /// Ops with an epilogue, and one without.
  static std::vector<Call> calls() {
    const auto bf16 = [](Shape shape) { return TensorType{DType::kBF16, std::move(shape)}; };
    const auto f32 = [](Shape shape) { return TensorType{DType::kF32, std::move(shape)}; };
    const TensorType x = bf16({kRows, kIn}), w = bf16({kIn, kOut}), bias = bf16({kOut}),
                     y = bf16({kRows, kOut});
    const TensorType dw = f32({kIn, kOut}), sums = f32({kOut});
    return {{OpKind::kLinear, {x, w}, {y}},
            {OpKind::kLinearWeightGrad, {x, y}, {dw}, true},
            {OpKind::kLinearGelu, {x, w, bias}, {y, y}},
            {OpKind::kLinearAdd, {x, w, y, bias}, {y}},
            {OpKind::kLinearInputGradGelu, {y, w, x}, {x}},
            {OpKind::kLinearWeightGradSum, {x, y}, {dw, sums}},
            {OpKind::kLinearWeightGradSum, {x, y}, {dw, sums}, true}};
  }
  /// Runs the op and returns its outputs, which had other values before.
  static std::vector<std::vector<float>> run(const CudaKernelsOptions& options, const Call& call) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<ConstTensorRef> inputs;
    std::vector<TensorRef> outputs;
    memory.reserve(call.inputs.size() + call.outputs.size());
    for (const TensorType& type : call.inputs) {
      memory.push_back(values(type, static_cast<float>(memory.size())));
      inputs.push_back({type, memory.back().data()});
    }
    for (const TensorType& type : call.outputs) {
      memory.push_back(values(type, static_cast<float>(memory.size())));
      outputs.push_back({type, memory.back().data()});
    }
    const std::vector<OutputMode> modes(
        call.outputs.size(), call.accumulate ? OutputMode::kAccumulate : OutputMode::kWrite);
    Op op{call.kind, {}};
    if (call.kind == OpKind::kLinearGelu) op = {call.kind, {{"keep", 1}}};
    CudaKernels(options).run(op, inputs, outputs, modes, nullptr);
    std::vector<std::vector<float>> results;
    for (std::size_t i = 0; i < call.outputs.size(); ++i)
      results.push_back(floats(call.outputs[i], memory[call.inputs.size() + i]));
    return results;
  }
  CudaKernelsOptions measuring() { return {.measure_products = true, .product_choices = file_}; }
  /// Makes plain products, and so two parts, faster than fused ones, or slower.
  static void set_times_of_two_parts(double microseconds) {
    cublaslt_double.times = [=](std::uint32_t epilogue) {
      return epilogue <= 1 ? Times{2 * microseconds, microseconds} : Times{30, 10};
    };
  }
};

TEST_F(MeasuredOps, HaveTheResultsOfUnmeasuredOnes) {
  set_times_of_two_parts(100);
  for (const Call& call : calls()) {
    SCOPED_TRACE(std::string(to_string(call.kind)) + (call.accumulate ? ", accumulating" : ""));
    const auto measured = run(measuring(), call);
    EXPECT_EQ(cublaslt_double.algorithm, 1);
    EXPECT_EQ(measured, run({}, call));
    EXPECT_EQ(cublaslt_double.algorithm, 0);
  }
}

TEST_F(MeasuredOps, HaveNearlyTheSameResultsInTwoParts) {
  set_times_of_two_parts(1);
  for (const Call& call : calls()) {
    SCOPED_TRACE(std::string(to_string(call.kind)) + (call.accumulate ? ", accumulating" : ""));
    const auto measured = run(measuring(), call);
    EXPECT_EQ(cublaslt_double.algorithm, 1);
    const auto unmeasured = run({}, call);
    for (std::size_t i = 0; i < measured.size(); ++i)
      EXPECT_THAT(measured[i], testing::Pointwise(testing::FloatNear(0.15f), unmeasured[i]));
  }
  EXPECT_THAT(stored(), HasSubstr("\"two parts\""));
}

TEST_F(MeasuredOps, LeaveNothingBehind) {
  const int objects = cublaslt_double.objects, events = cuda_runtime_double.objects;
  const std::size_t blocks = cuda_runtime_double.blocks.size();
  for (const Call& call : calls()) run(measuring(), call);
  EXPECT_EQ(cublaslt_double.objects, objects);
  EXPECT_EQ(cuda_runtime_double.objects, events);
  EXPECT_EQ(cuda_runtime_double.blocks.size(), blocks);
}

// --- the file ---

TEST_F(MeasuredProducts, KeepTheirAlgorithmInLaterRuns) {
  EXPECT_EQ(algorithm_of(options(), plain()), 1);
  set_times({10, 30, 20});
  CublasLtProducts later(options());
  EXPECT_EQ(products_of([&] { EXPECT_EQ(algorithm_of(later, plain()), 1); }), 1);
  EXPECT_EQ(algorithm_of(later, plain(3)), 0) << "another product is measured";
}

TEST_F(MeasuredProducts, OfTwoProcessesHaveTheAlgorithmThatTheFirstOneStores) {
  CublasLtProducts one(options()), other(options());
  algorithm_of(one, plain(1));
  algorithm_of(other, plain(1));  // has read the file
  EXPECT_EQ(algorithm_of(one, plain()), 1);
  set_times({10, 30, 20});
  EXPECT_EQ(products_of([&] { EXPECT_EQ(algorithm_of(other, plain()), 1); }), 1);
}

TEST_F(MeasuredProducts, AreMeasuredAgainIfTheLibraryRejectsTheStoredAlgorithm) {
  algorithm_of(options(), plain());
  cuda::ProductChoiceMap choices = cuda::parse_product_choices(stored()).choices;
  ASSERT_THAT(choices, SizeIs(1));
  choices.begin()->second.algorithm = cuda::ProductAlgorithm{1, 2, 3};
  std::ofstream(file_) << cuda::to_json_lines(choices);
  set_times({30, 20, 10});
  EXPECT_EQ(algorithm_of(options(), plain()), 2);
  set_times({10, 20, 30});
  EXPECT_EQ(algorithm_of(options(), plain()), 2);
}

TEST_F(MeasuredProducts, AreMeasuredAgainIfTheFileIsDamaged) {
  algorithm_of(options(), plain());
  std::string text = stored();
  text[text.find("\"algorithm\":\"") + 13] = '?';
  std::ofstream(file_) << text;
  set_times({30, 20, 10});
  EXPECT_EQ(algorithm_of(options(), plain()), 2);
  EXPECT_THAT(notes_, testing::Each(HasSubstr("choices.jsonl has 1 damaged line")));
  notes_.clear();
  EXPECT_EQ(algorithm_of(options(), plain()), 2);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(MeasuredProducts, AreNotMeasuredWithoutAFileIfRunsMustBeEqual) {
  // No folder at all; a folder that cannot be created; one that cannot be read either.
  std::ofstream(scratch_.path() / "file");
  for (const std::filesystem::path& path :
       {std::filesystem::path(), std::filesystem::path("/proc/weft/choices.jsonl"),
        scratch_.path() / "file" / "choices.jsonl"}) {
    SCOPED_TRACE(path);
    notes_.clear();
    CublasLtOptions asked = options();
    asked.choices = path;
    CublasLtProducts products(asked);
    EXPECT_EQ(algorithm_of(products, plain()), 0);
    EXPECT_EQ(products_of([&] { EXPECT_EQ(algorithm_of(products, plain(3)), 0); }), 1);
    EXPECT_THAT(notes_, ElementsAre(HasSubstr("the choices of matrix products are not stored: ")));
  }
}

TEST_F(MeasuredProducts, AreMeasuredWithoutAFileIfRunsMayDiffer) {
  CublasLtOptions asked = options();
  asked.choices.clear();
  asked.deterministic = false;
  CublasLtProducts products(asked);
  EXPECT_EQ(algorithm_of(products, plain()), 1);
  EXPECT_EQ(algorithm_of(products, plain(3)), 1);
  EXPECT_THAT(notes_, SizeIs(1));
}

TEST_F(MeasuredProducts, AreNotMeasuredWithoutMemory) {
  cuda_runtime_double.no_memory_in_stream = true;
  MatrixProduct p = plain();
  p.accumulate = true;
  EXPECT_EQ(algorithm_of(options(), p), 0);
  EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr("cuBLASLt's first answer"),
                                        HasSubstr("no memory to measure others"))));
  EXPECT_EQ(stored(), "");
}

// --- recordings ---

TEST_F(MeasuredProducts, AreNotMeasuredWhileTheStreamIsCaptured) {
  std::ranges::fill(a_, 1.0f);
  std::ranges::fill(b_, 2.0f);
  CublasLtProducts products(options());
  cuda_runtime_double.begin_capture();
  EXPECT_EQ(products_of([&] { EXPECT_EQ(algorithm_of(products, plain()), 0); }), 1);
  const auto graph = cuda_runtime_double.end_capture();
  ASSERT_NE(graph, nullptr);
  for (const auto& work : graph->work) work();
  EXPECT_EQ(c_[0], 16);
  EXPECT_EQ(stored(), "");
}

TEST_F(MeasuredProducts, HaveTheStoredAlgorithmWhileTheStreamIsCaptured) {
  algorithm_of(options(), plain());
  CublasLtProducts products(options());
  cuda_runtime_double.begin_capture();
  EXPECT_EQ(algorithm_of(products, plain()), 1);
  EXPECT_NE(cuda_runtime_double.end_capture(), nullptr);
}

}  // namespace
}  // namespace weft::test
