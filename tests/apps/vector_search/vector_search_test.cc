#include "apps/vector_search/vector_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/plugin.h"

namespace weft::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(InnerProduct, IsTheSameFromEitherSide) {
  for (const std::size_t size : {1, 15, 16, 17, 64, 100}) {
    std::vector<float> a(size), b(size);
    double sum = 0;
    for (std::size_t i = 0; i < size; ++i) {
      a[i] = 1 / static_cast<float>(3 + i);
      b[i] = static_cast<float>(i % 7) - 3.3F;
      sum += static_cast<double>(a[i]) * b[i];
    }
    EXPECT_NEAR(inner_product(a, b), sum, 1e-5) << size;
    EXPECT_EQ(inner_product(a, b), inner_product(b, a)) << size;
  }
}

TEST(PlainSearch, GivesTheLargestProductsAndThenNone) {
  const std::vector<float> bases = {1, 0, 0, 1, 3, 0}, queries = {2, 1, -1, 0};
  std::vector<std::int64_t> rows(8);
  std::vector<float> products(8);
  plain_search().top_k_products({queries, 2}, {bases, 2}, 4, rows, products);
  EXPECT_THAT(rows, ElementsAre(2, 0, 1, VectorSearch::kNoRow, 1, 0, 2, VectorSearch::kNoRow));
  EXPECT_THAT(std::span(products).first(3), ElementsAre(6, 2, 1));
}

/// Plain search whose results for 1531 base vectors are altered by `spoil`.
class SpoiltSearch final : public VectorSearch {
 public:
  using Spoil = std::function<void(std::span<std::int64_t> rows, std::span<float> products)>;
  explicit SpoiltSearch(Spoil spoil) : spoil_(std::move(spoil)) {}
  std::string name() const override { return "spoilt"; }
  void top_k_products(VectorRows queries, VectorRows bases, std::size_t count,
                      std::span<std::int64_t> rows, std::span<float> products) const override {
    plain_search().top_k_products(queries, bases, count, rows, products);
    if (bases.size() == 1531) spoil_(rows, products);
  }

 private:
  const Spoil spoil_;
};

TEST(SearchProblem, FindsWhatALibraryComputesWrong) {
  EXPECT_EQ(verify_search(plain_search()), "");
  const auto problem = [](SpoiltSearch::Spoil spoil) {
    return verify_search(SpoiltSearch(std::move(spoil)));
  };
  EXPECT_THAT(problem([](auto, auto products) { products[20] *= 1.001F; }),
              HasSubstr("the product of query 1 and base"));
  EXPECT_THAT(problem([](auto, auto products) { products[0] = NAN; }), HasSubstr("is nan, not"));
  EXPECT_THAT(problem([](auto rows, auto products) {
                rows[4] = rows[5];
                products[4] = products[5];
              }),
              HasSubstr("is left out"));
  EXPECT_THAT(problem([](auto rows, auto) { rows[7] = 1531; }), HasSubstr("row 1531"));
  EXPECT_THAT(problem([](auto rows, auto) { rows[7] = VectorSearch::kNoRow; }),
              HasSubstr("row -1"));
}

TEST(OpenedSearch, IsTheLibraryOrSaysWhyNot) {
  const OpenedSearch& opened = vector_search();
  ASSERT_NE(opened.search, nullptr);
  EXPECT_EQ(opened.problem.empty(), opened.search != &plain_search()) << opened.problem;
  EXPECT_EQ(verify_search(*opened.search), "");
  if (!opened.problem.empty()) {
    GTEST_SKIP() << opened.problem;
  }
  EXPECT_THAT(opened.search->name(), HasSubstr("OpenBLAS 0."));
}

// Sanitizers need more memory than this test allows.
#if !defined(WEFT_ADDRESS_SANITIZER) && !defined(WEFT_THREAD_SANITIZER)
TEST(OpenedSearchDeathTest, IsNotALibraryThatWouldWaitForMemoryForEver) {
  if (!find_plugin(VectorSearch::kFile, plugin_folders())) GTEST_SKIP() << "there is no library";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fresh process, in which no library is open
  const auto open_under_a_limit = [] {
    rlimit limit{};
    ::getrlimit(RLIMIT_DATA, &limit);
    limit.rlim_cur = std::size_t{100} << 20;
    ::setrlimit(RLIMIT_DATA, &limit);
    const OpenedSearch& opened = vector_search();
    std::fputs(opened.problem.c_str(), stderr);
    std::_Exit(opened.search == &plain_search() && verify_search(*opened.search).empty() ? 0 : 1);
  };
  EXPECT_EXIT(open_under_a_limit(), testing::ExitedWithCode(0), "RLIMIT_DATA");
}
#endif

}  // namespace
}  // namespace weft::apps
