#include "actors/call/interface.h"

#include <gtest/gtest.h>

#include "actors/call/future.h"
#include "actors/call/method_table.h"

namespace weft::actors {
namespace {

struct Plan {
  int step = 0;
  static constexpr auto fields = weft::fields(&Plan::step);
};
struct RenamedPlan {
  int phase = 0;
  static constexpr auto fields = weft::fields(&RenamedPlan::phase);
};

template <typename P, FixedString Name, std::uint32_t Version>
class Worker final {
 public:
  void install(P) {}
  task<double> step(const P& plan) { co_return plan_value(plan); }
  int count() const { return 3; }
  static double plan_value(const P&) { return 1.0; }
  static constexpr auto endpoints =
      interface<Name, Version>(on<&Worker::install>("install"), on<&Worker::step>("step"),
                               on<&Worker::count>("count", urgent));
};
using A = Worker<Plan, "worker", 1>;

TEST(Interface, IndexesFollowTheListAndResultsSeeThroughTasks) {
  static_assert(method_index<A, &A::install>() == 0);
  static_assert(method_index<A, &A::count>() == 2);
  static_assert(std::is_same_v<ResultOf<&A::step>, double>);
  static_assert(std::is_same_v<ArgumentsOf<&A::step>, std::tuple<Plan>>);
  EXPECT_STREQ(kMethodTable<A>[1].name, "step");
  EXPECT_TRUE(kMethodTable<A>[2].urgent);
}

TEST(Interface, FingerprintsCoverNameVersionAndFields) {
  static_assert(interface_fingerprint<A>() !=
                interface_fingerprint<Worker<RenamedPlan, "worker", 1>>());
  static_assert(interface_fingerprint<A>() != interface_fingerprint<Worker<Plan, "worker", 2>>());
  static_assert(interface_fingerprint<A>() != interface_fingerprint<Worker<Plan, "other", 1>>());
}

}  // namespace
}  // namespace weft::actors
