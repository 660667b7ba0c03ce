#include "transfer/execute/internal/strided_view.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "core/base/error.h"
#include "core/tensor/bfloat16.h"
#include "tests/support/thrown_error.h"
#include "transfer/execute/internal/reduce_terms.h"
#include "transfer/execute/slot_pool.h"

namespace weft::transfer {
namespace {

TEST(StridedView, AddressesRunsOfTheBox) {
  const StridedView view(Region({{1, 3}, {2, 4}}), Region({{0, 4}, {0, 8}}), 4);
  EXPECT_EQ(view.bytes(), 16u);
  EXPECT_EQ(view.contiguous(0, 8), 40u);
  EXPECT_EQ(view.contiguous(8, 8), 72u);
  EXPECT_EQ(view.contiguous(4, 8), std::nullopt) << "spans two runs";
}

TEST(StridedView, ARegionOutsideTheBoxIsRefused) {
  EXPECT_THAT(
      [&] {
        StridedView(Region({{0, 5}}), Region({{0, 4}}), 4);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "is not inside the buffer's box"));
}

TEST(StridedView, EveryRangeEqualsThatOfTheCopiedRegion) {
  const std::uint64_t seed = 3;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    std::vector<Interval> box(random() % 5), region;
    for (Interval& interval : box) {
      interval = {2, 3 + static_cast<std::int64_t>(random() % 6)};
      const std::uint64_t size = interval.size();
      const std::int64_t begin = random() % size;
      // Half of the intervals are full, so that runs join.
      if (random() % 2 == 0) region.push_back(interval);
      else
        region.push_back(
            {interval.begin + begin,
             interval.begin + begin + 1 + static_cast<std::int64_t>(random() % (size - begin))});
    }
    const std::size_t element = std::array<std::size_t, 3>{1, 4, 8}[random() % 3];
    const Region r(region), b(box);
    std::vector<std::byte> memory(b.num_elements() * element);
    for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
    const StridedView view(r, b, element);
    std::vector<std::byte> dense(view.bytes());
    copy_region(r, element, b, memory, r, dense);
    for (int range = 0; range < 8; ++range) {
      const std::size_t begin = random() % view.bytes(),
                        count = 1 + random() % (view.bytes() - begin);
      std::vector<std::byte> got(count);
      view.gather(memory.data(), begin, got);
      ASSERT_TRUE(
          std::equal(got.begin(), got.end(), dense.begin() + static_cast<std::ptrdiff_t>(begin)));
      if (const auto at = view.contiguous(begin, count)) {
        ASSERT_EQ(std::memcmp(memory.data() + *at, got.data(), count), 0);
      }
      std::vector<std::byte> target(memory.size()), expected(memory.size()), part(dense.size());
      view.scatter(got, begin, target.data());
      std::copy(got.begin(), got.end(), part.begin() + begin);
      copy_region(r, element, r, part, b, expected);
      ASSERT_EQ(target, expected);
    }
  }
}

TEST(ReduceTerms, SumsInOrderAlsoIntoALaterTerm) {
  // (1e8 + 1) - 1e8 is 0 in this order and 1 in another.
  std::vector<float> a(3000, 1e8f), b(3000, 1.0f), c(3000, -1e8f);
  const std::byte* terms[] = {reinterpret_cast<std::byte*>(a.data()),
                              reinterpret_cast<std::byte*>(b.data()),
                              reinterpret_cast<std::byte*>(c.data())};
  reduce_terms(DType::kF32, ReduceOp::kSum, terms, std::as_writable_bytes(std::span(c)));
  EXPECT_EQ(c, std::vector<float>(3000, 0.0f));
  std::vector<double> d = {1, 5, -3}, e = {2, 4, -7}, out(3);
  const std::byte* more[] = {reinterpret_cast<std::byte*>(d.data()),
                             reinterpret_cast<std::byte*>(e.data())};
  reduce_terms(DType::kF64, ReduceOp::kMax, more, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, (std::vector<double>{2, 5, -3}));
}

TEST(ReduceTerms, SumsBf16InF32AndRoundsOnce) {
  // Bf16 rounds 256 + 1 to 256, which would lose each 1.
  std::vector<BFloat16> a(1500, BFloat16(256)), b(1500, BFloat16(1)), out(1500);
  const std::byte* terms[] = {reinterpret_cast<std::byte*>(a.data()),
                              reinterpret_cast<std::byte*>(b.data()),
                              reinterpret_cast<std::byte*>(b.data())};
  reduce_terms(DType::kBF16, ReduceOp::kSum, terms, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, std::vector<BFloat16>(1500, BFloat16(258)));
  reduce_terms(DType::kBF16, ReduceOp::kMax, terms, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, a);
}

TEST(SlotPool, LendsTheSameMemoryAgain) {
  SlotPool pool;
  const std::byte* first = nullptr;
  {
    auto slot = pool.take(1000);
    first = slot.bytes().data();
    EXPECT_EQ(slot.bytes().size(), 1000u);
    EXPECT_EQ(pool.bytes_on_loan(), 1024u);
  }
  EXPECT_EQ(pool.bytes_on_loan(), 0u);
  EXPECT_EQ(pool.take(700).bytes().data(), first);
  EXPECT_EQ(pool.peak_bytes(), 1024u);
}

TEST(SlotPool, TakesItsMemoryFromTheGivenAllocator) {
  std::vector<std::size_t> asked;
  int given_back = 0;
  {
    SlotPool pool([&](std::size_t bytes) {
      asked.push_back(bytes);
      return StagingMemory(new std::byte[bytes], [&](const std::byte* memory) {
        delete[] memory;
        ++given_back;
      });
    });
    for (int i = 0; i < 3; ++i) pool.take(1000);
    EXPECT_EQ(given_back, 0) << "staging memory is kept for the next chunk";
  }
  EXPECT_EQ(asked, std::vector<std::size_t>{1024});
  EXPECT_EQ(given_back, 1);
}

}  // namespace
}  // namespace weft::transfer
