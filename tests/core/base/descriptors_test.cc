#include "core/base/descriptors.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

namespace weft {
namespace {

using ::testing::HasSubstr;

/// Lowered RLIMIT_NOFILE of this process; the destructor restores the previous limit.
class LowLimit final {
 public:
  explicit LowLimit(rlim_t soft) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit lowered{soft, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &lowered);
  }
  ~LowLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  rlim_t hard() const { return before_.rlim_max; }

 private:
  rlimit before_{};
};

TEST(Descriptors, LimitIsRaisedToWhatTheSystemAllows) {
  const LowLimit low(256);
  raise_descriptor_limit();
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  EXPECT_EQ(files.rlim_cur, low.hard());
}

TEST(Descriptors, ReserveServesWhenStrangersHaveTakenTheRest) {
  const LowLimit low(256);
  DescriptorReserve reserve(20);
  EXPECT_EQ(reserve.size(), 20);
  EXPECT_EQ(descriptor_shortage(), "");
  std::vector<int> strangers;
  for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) strangers.push_back(fd);
  const std::string shortage = descriptor_shortage();
  reserve.release();
  std::vector<int> work;
  for (int i = 0; i < 20; ++i) work.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int last = work.back();
  for (const int fd : work) ::close(fd);
  reserve.take();
  const int taken = reserve.size();
  for (const int fd : strangers) ::close(fd);
  EXPECT_THAT(shortage, HasSubstr("all 256 file descriptors of this process are in use"));
  EXPECT_GE(last, 0);
  EXPECT_EQ(taken, 20);
}

}  // namespace
}  // namespace weft
