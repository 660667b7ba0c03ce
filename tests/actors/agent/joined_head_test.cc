#include "actors/agent/joined_head.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

const ProcessRef kFirst{ProcessId(1), "head", {}}, kSecond{ProcessId(2), "head", {}};

ErrorCode refusal(const JoinedHead& head, const ProcessRef& caller, std::uint64_t term) {
  return test::error_of([&] { head.check(caller, term); }).code();
}

TEST(JoinedHead, TheHeadThatIsBeingJoinedIsObeyedBesideTheOneBefore) {
  JoinedHead head("a");
  EXPECT_EQ(refusal(head, kFirst, 1), ErrorCode::kFailedPrecondition);
  head.complete(kFirst, 1, 0);
  head.check(kFirst, 1);
  head.prepare(kSecond);
  head.check(kFirst, 1);
  head.check(kSecond, 2);
  head.complete(kSecond, 2, 0);
  EXPECT_EQ(refusal(head, kFirst, 2), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(refusal(head, kSecond, 1), ErrorCode::kStaleEpoch);
}

}  // namespace
}  // namespace weft::actors
