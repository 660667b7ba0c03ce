#include "apps/bench/test_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;

using testing::HasSubstr;

class TestHostsTest : public testing::Test {
 protected:
  /// Writes a tool in place of weft-hosts, which runs `address` for "address outer".
  fs::path tool(const std::string& address) const {
    const fs::path path = scratch_.path() / "hosts";
    std::ofstream(path) << "#!/bin/sh\n"
                           "if [ \"$3\" = up ]; then\n"
                           "  echo 'host0 none 198.18.0.1 198.18.1.1'; echo 'ready: 1 host'\n"
                           "  cat > /dev/null; touch '"
                        << stopped_.string() << "'\nelse\n  " << address << "\nfi\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }

  const test::ScratchFolder scratch_;
  const fs::path stopped_ = scratch_.path() / "stopped";
};

TEST_F(TestHostsTest, StopsTheToolWhenDestroyed) {
  {
    const TestHosts hosts({tool("echo 198.18.255.1"), "session", 1, 2});
    EXPECT_EQ(hosts.address(0, 1), "198.18.1.1");
    EXPECT_EQ(hosts.outer_address(), "198.18.255.1");
    EXPECT_FALSE(fs::exists(stopped_));
  }
  EXPECT_TRUE(fs::exists(stopped_));
}

TEST_F(TestHostsTest, StopsTheToolIfALaterCommandFails) {
  const fs::path failing = tool("echo no address; exit 1");
  const Error error = test::error_of([&] { TestHosts hosts({failing, "session", 1, 1}); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("address outer: no address"));
  EXPECT_TRUE(fs::exists(stopped_));
}

TEST_F(TestHostsTest, ReportsTheOutputOfAToolThatDoesNotStart) {
  const fs::path absent = scratch_.path() / "absent";
  EXPECT_THAT(test::error_of([&] {
                TestHosts hosts({absent, "session", 1, 1});
              }).message(),
              HasSubstr("cannot make test hosts"));
}

}  // namespace
}  // namespace weft::apps
