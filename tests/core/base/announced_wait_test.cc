#include "core/base/announced_wait.h"

#include <gtest/gtest.h>

#include <future>

namespace weft {
namespace {

TEST(AnnouncedWait, ReportsOnceWhatIsAwaitedAndForHowLong) {
  std::promise<std::string> said;
  AnnouncedWait wait(
      "a host", std::chrono::seconds(20), [&](const std::string& text) { said.set_value(text); },
      Nanoseconds::zero());
  EXPECT_EQ(said.get_future().get(), "waiting for a host (at most 20 s)");
}

TEST(AnnouncedWait, AShortWaitIsNotReported) {
  int told = 0;
  {
    AnnouncedWait wait(
        "a host", std::chrono::seconds(20), [&](const std::string&) { ++told; },
        std::chrono::hours(1));
    wait.update("another host");
  }
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace weft
