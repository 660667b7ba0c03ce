#include "actors/link/compatibility.h"

#include <gtest/gtest.h>

namespace weft::actors {
namespace {

PeerDescription side(const std::string& name, std::uint64_t id) {
  return {{ProcessId(id), name, {}}, 100, "gpt", std::string(64, 'a'), {{"mesh.device", 1, 5}}};
}

TEST(Compatibility, EqualSidesAreCompatibleAndSoAreOnesThatShareNothing) {
  EXPECT_FALSE(find_incompatibility(side("a", 1), side("b", 2)));
  auto tool = side("cli", 3);
  tool.binary_hash.clear();
  tool.interfaces = {{"head", 1, 9}};
  EXPECT_FALSE(find_incompatibility(side("a", 1), tool));
}

TEST(Compatibility, ARefusalNamesBothSidesTheDifferenceAndTheRemedy) {
  auto other = side("worker1", 2);
  other.interfaces[0].fingerprint = 6;
  auto reject = find_incompatibility(side("driver", 1), other);
  ASSERT_TRUE(reject);
  for (const char* part : {"driver", "worker1", "mesh.device", "fingerprint"})
    EXPECT_NE(reject->text.find(part), std::string::npos) << reject->text;
  EXPECT_EQ(reject->hint, "build both from the same source");

  other = side("worker1", 2);
  other.interfaces[0].version = 3;
  reject = find_incompatibility(side("driver", 1), other);
  ASSERT_TRUE(reject);
  EXPECT_NE(reject->text.find("version 1 in driver"), std::string::npos) << reject->text;
  EXPECT_NE(reject->text.find("version 3 in worker1"), std::string::npos) << reject->text;

  other = side("worker1", 2);
  other.binary_hash = std::string(64, 'b');
  reject = find_incompatibility(side("driver", 1), other);
  ASSERT_TRUE(reject);
  EXPECT_NE(reject->text.find("different executables"), std::string::npos) << reject->text;
  EXPECT_NE(reject->hint.find("copy the same executable"), std::string::npos);
}

TEST(Compatibility, AProcessRefusesItself) {
  EXPECT_TRUE(find_incompatibility(side("a", 1), side("a", 1)));
}

}  // namespace
}  // namespace weft::actors
