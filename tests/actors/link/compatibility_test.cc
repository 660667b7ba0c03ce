#include "actors/link/compatibility.h"

#include <gtest/gtest.h>

namespace weft::actors {
namespace {

PeerDescription side(const std::string& name, std::uint64_t id) {
  PeerDescription description{{ProcessId(id), name, {}}, 100, "gpt", std::string(64, 'a')};
  description.run = 7;
  return description;
}

TEST(Compatibility, ProcessesOfOneRunNeedTheSameExecutable) {
  EXPECT_FALSE(find_incompatibility(side("a", 1), side("b", 2)));
  auto other = side("worker1", 2);
  other.binary_hash = std::string(64, 'b');
  const auto reject = find_incompatibility(side("driver", 1), other);
  ASSERT_TRUE(reject);
  for (const char* part : {"driver", "worker1", "different executables"})
    EXPECT_NE(reject->text.find(part), std::string::npos) << reject->text;
  EXPECT_NE(reject->hint.find("copy the same executable"), std::string::npos);
}

TEST(Compatibility, ProcessesOfDifferentRunsAndOfNoneMayRunDifferentExecutables) {
  auto other = side("worker1", 2);
  other.binary_hash = std::string(64, 'b');
  other.run = 8;
  EXPECT_FALSE(find_incompatibility(side("driver", 1), other));
  auto first = side("first", 1);
  first.run = other.run = 0;
  EXPECT_FALSE(find_incompatibility(first, other));
}

TEST(Compatibility, AProcessRefusesItself) {
  EXPECT_TRUE(find_incompatibility(side("a", 1), side("a", 1)));
}

}  // namespace
}  // namespace weft::actors
