#include "actors/call/pending.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace weft::actors {
namespace {

/// Operation that a test completes.
class Latch final : public Pending {
 public:
  void open() {
    if (claim()) publish();
  }
  void cancel() override { open(); }
};

TEST(Pending, RunsAllCallbacksOnceThoseOfWatchersLast) {
  Latch latch;
  std::string order;
  latch.watch(&order, [&] { order += "w"; });
  for (const char* name : {"a", "b", "c"}) latch.when_done([&order, name] { order += name; });
  latch.watch(&order, [&] { order += "x"; });
  EXPECT_EQ(order, "");
  latch.open();
  EXPECT_EQ(order, "abcwx");
  latch.open();
  EXPECT_EQ(order, "abcwx");
}

TEST(Pending, RunsCallbacksAtOnceIfItIsDone) {
  Latch latch;
  latch.open();
  int runs = 0;
  latch.when_done([&] { ++runs; });
  latch.watch(&runs, [&] { ++runs; });
  EXPECT_EQ(runs, 2);
}

TEST(Pending, ForgetsTheCallbacksOfOneWatcherOnly) {
  Latch latch;
  std::string order;
  const int first = 0, second = 0;
  latch.forget(&first);
  latch.when_done([&] { order += "a"; });
  latch.watch(&first, [&] { order += "1"; });
  latch.watch(&second, [&] { order += "2"; });
  latch.watch(&first, [&] { order += "3"; });
  latch.forget(&first);
  latch.open();
  EXPECT_EQ(order, "a2");
}

TEST(Pending, ACallbackMayForgetAnother) {
  Latch latch;
  int runs = 0;
  const auto counted = std::make_shared<int>(0);
  latch.watch(&runs, [&] {
    ++runs;
    latch.forget(counted.get());
  });
  latch.watch(counted.get(), [counted, &runs] { ++runs; });
  latch.open();
  EXPECT_EQ(runs, 2) << "it has begun: all run";
  EXPECT_EQ(counted.use_count(), 1) << "callbacks are released";
}

}  // namespace
}  // namespace weft::actors
