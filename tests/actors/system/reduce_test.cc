// reduce(): results of all actors combined into one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "actors/call/method_table.h"
#include "tests/actors/system/pool.h"
#include "tests/support/eventually.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::throws_error;

TEST(Reduce, SumsNumbersVectorsAndArrays) {
  Pool pool(5);
  EXPECT_EQ(pool.mesh->reduce<&Solver::rank>(sum).get(), 10);
  EXPECT_EQ(pool.mesh->reduce<&Solver::rank>(min).get(), 0);
  EXPECT_EQ(pool.mesh->reduce<&Solver::rank>(max).get(), 4);
  EXPECT_EQ(pool.mesh->slice({{"worker", 2, 4}}).reduce<&Solver::rank>(sum).get(), 5);
  EXPECT_EQ(pool.mesh->reduce<&Solver::gradient>(sum, 3).get(),
            (std::vector<float>{7.5f, 7.5f, 7.5f}));
  EXPECT_EQ(pool.mesh->reduce<&Solver::gradient>(max, 2).get(), (std::vector<float>{2.5f, 2.5f}));
  EXPECT_EQ(pool.mesh->reduce<&Solver::gradient>(sum, 0).get(), std::vector<float>());
  EXPECT_EQ(pool.mesh->reduce<&Solver::pair>(sum).get(), (std::array<int, 2>{10, 50}));
}

TEST(Reduce, TheMeanOfIntegersIsADouble) {
  Pool pool(4);
  static_assert(std::is_same_v<decltype(pool.mesh->reduce<&Solver::rank>(mean).get()), double>);
  EXPECT_EQ(pool.mesh->reduce<&Solver::rank>(mean).get(), 1.5);
  EXPECT_EQ(pool.mesh->reduce<&Solver::gradient>(mean, 1).get(), std::vector<float>{1.25f});
  EXPECT_EQ(pool.mesh->reduce<&Solver::pair>(mean).get(), (std::array<double, 2>{1.5, 10}));
}

TEST(Reduce, AListedFunctionCombinesAnyResults) {
  Pool pool(3);
  EXPECT_EQ(pool.mesh->reduce<&Solver::words>(reduce_with<&Solver::merge>).get(),
            (std::map<std::string, int>{{"all", 3}, {"rank0", 1}, {"rank1", 1}, {"rank2", 1}}));
}

TEST(Reduce, BracketsDependOnTheRanksOnly) {
  const std::vector<std::string> brackets{"0",
                                          "(01)",
                                          "((01)2)",
                                          "((01)(23))",
                                          "(((01)(23))4)",
                                          "(((01)(23))(45))",
                                          "(((01)(23))((45)6))"};
  for (std::int64_t size = 1; size <= 7; ++size) {
    Pool pool(size);
    EXPECT_EQ(pool.mesh->reduce<&Solver::name>(reduce_with<&Solver::bracket>).get(),
              brackets[size - 1]);
    double bracketed[7];
    for (int i = 0; i < 7; ++i) bracketed[i] = 1.0 / (3 + i);
    const double sums[7] = {
        bracketed[0],
        bracketed[0] + bracketed[1],
        (bracketed[0] + bracketed[1]) + bracketed[2],
        (bracketed[0] + bracketed[1]) + (bracketed[2] + bracketed[3]),
        ((bracketed[0] + bracketed[1]) + (bracketed[2] + bracketed[3])) + bracketed[4],
        ((bracketed[0] + bracketed[1]) + (bracketed[2] + bracketed[3])) +
            (bracketed[4] + bracketed[5]),
        ((bracketed[0] + bracketed[1]) + (bracketed[2] + bracketed[3])) +
            ((bracketed[4] + bracketed[5]) + bracketed[6])};
    for (int round = 0; round < 20; ++round)
      EXPECT_EQ(std::bit_cast<std::uint64_t>(pool.mesh->reduce<&Solver::third>(sum).get()),
                std::bit_cast<std::uint64_t>(sums[size - 1]));
  }
}

TEST(Reduce, SizesThatDisagreeAreAnErrorThatNamesTheActors) {
  Pool pool(3);
  EXPECT_THAT([&] { (void)pool.mesh->reduce<&Solver::of_rank_size>(sum).get(); },
              throws_error(ErrorCode::kInvalidArgument, "'of_rank_size'", "pool[worker=0]",
                           "pool[worker=2]", "2 and 3 elements", "the same number"));
}

TEST(Reduce, ASumThatOverflowsIsAnError) {
  Pool pool(2);
  EXPECT_THAT([&] { (void)pool.mesh->reduce<&Solver::huge>(sum).get(); },
              throws_error(ErrorCode::kInvalidArgument, "pool[worker=1]", "32 bits", "wider type"));
  EXPECT_EQ(pool.mesh->reduce<&Solver::huge>(max).get(), std::numeric_limits<int>::max());
}

TEST(Reduce, TheFirstErrorFailsItAndCancelsTheOthers) {
  Pool pool(3);
  const Error error =
      test::error_of([&] { (void)pool.mesh->reduce<&Solver::rank_from>(sum, 1).get(); });
  EXPECT_EQ(error.actor(), "pool[worker=0]");
  auto waiting = pool.mesh->reduce<&Solver::wait_below>(sum, 3);
  for (const std::int64_t rank : {0, 1, 2})
    EXPECT_TRUE(
        eventually([&] { return pool.mesh->rank(rank).call<&Solver::is_waiting>().get(); }));
  pool.kill(1);
  EXPECT_THAT([&] { (void)waiting.get(); }, throws_error(ErrorCode::kPeerDied, "worker1 died"));
  EXPECT_TRUE(eventually([] { return Solver::cancelled == 2; }));
}

TEST(Reduce, CancelledItCancelsItsCalls) {
  Pool pool(2);
  auto waiting = pool.mesh->reduce<&Solver::wait_below>(sum, 2);
  for (const std::int64_t rank : {0, 1})
    EXPECT_TRUE(
        eventually([&] { return pool.mesh->rank(rank).call<&Solver::is_waiting>().get(); }));
  waiting.cancel();
  EXPECT_THAT([&] { (void)waiting.get(); }, throws_error(ErrorCode::kCancelled, "'wait_below'"));
  EXPECT_TRUE(eventually([] { return Solver::cancelled == 2; }));
}

template <typename R>
R combined(CombineResults combine, ReduceOperation operation, const R& left, const R& right) {
  std::vector<std::byte> bytes = encode(left);
  combine(operation, bytes, encode(right), nullptr);
  return decode<R>(bytes);
}

TEST(Reduce, TheMethodTableCombinesEncodedResults) {
  const auto& rank = kMethodTable<Solver>[method_index<Solver, &Solver::rank>()];
  EXPECT_EQ((combined<std::int64_t>(rank.combine, ReduceOperation::kSum, 2, 40)), 42);
  const auto& name = kMethodTable<Solver>[method_index<Solver, &Solver::name>()];
  EXPECT_EQ((combined<std::string>(name.combine, ReduceOperation::kListed, "a", "b")), "(ab)");
  EXPECT_EQ((kMethodTable<Solver>[method_index<Solver, &Solver::note>()].combine), nullptr);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto combine = combine_of<Solver, &Solver::third>();
  for (const auto operation : {ReduceOperation::kMin, ReduceOperation::kMax}) {
    EXPECT_TRUE(std::isnan(combined<double>(combine, operation, nan, 1.0)));
    EXPECT_TRUE(std::isnan(combined<double>(combine, operation, 1.0, nan)));
  }
}

TEST(Reduce, AnErrorLeavesTheLeftResultUnchanged) {
  using Numbers = std::vector<std::int64_t>;
  const std::vector<std::byte> before = encode(Numbers{1, 2});
  std::vector<std::byte> left = before;
  const auto add = [&](const std::vector<std::byte>& right) {
    internal::combine_results<Numbers>(ReduceOperation::kSum, left, right, nullptr);
  };
  EXPECT_THAT([&] { add({}); }, throws_error(ErrorCode::kDataLoss, "damaged"));
  EXPECT_THAT(
      [&] {
        add(encode(Numbers{5, std::numeric_limits<std::int64_t>::max()}));
      },
      throws_error(ErrorCode::kInvalidArgument, "above the largest number"));
  EXPECT_EQ(left, before);
}

}  // namespace
}  // namespace weft::actors
