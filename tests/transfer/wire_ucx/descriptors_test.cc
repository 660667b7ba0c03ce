// Tests that a process can make a new wire after strangers have used up its descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "tests/support/cluster_token.h"
#include "tests/support/eventually.h"
#include "transfer/wire_ucx/ucx_wire.h"

namespace weft::transfer {
namespace {

std::unique_ptr<Wire> wire(std::uint32_t id) {
  return make_ucx_wire(DeviceId(id), HostId(id),
                       {.secret = test::cluster_token(), .interfaces = "lo"});
}

/// Returns the ports on which this process listens.
std::vector<sockaddr_in> ports() {
  std::vector<sockaddr_in> found;
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    sockaddr_in own{};
    socklen_t own_size = sizeof own;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
        own.sin_family == AF_INET)
      found.push_back(own);
  }
  return found;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

TEST(UcxDescriptors, AWireIsMadeAgainAfterStrangersHaveTakenAll) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  std::unique_ptr<Wire> first = wire(0);
  const std::vector<sockaddr_in> open = ports();
  ASSERT_FALSE(open.empty());
  // Leaves a few descriptors to the strangers, which are in this process too.
  const std::size_t limit = open_descriptors() + 60;
  const rlimit low{limit, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &low);
  std::vector<int> strangers;
  for (int fd = 0; (fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0;) {
    strangers.push_back(fd);
    if (strangers.size() == 40) break;
  }
  for (std::size_t i = 0; i < strangers.size(); ++i) {
    const sockaddr_in& to = open[i % open.size()];
    ::connect(strangers[i], reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  // UCX closes a port when it cannot accept.
  EXPECT_TRUE(test::eventually([&] { return ports().size() < open.size(); }));
  first.reset();
  for (const int fd : strangers) ::close(fd);
  std::unique_ptr<Wire> second, third;
  EXPECT_NO_THROW(second = wire(0));
  EXPECT_NO_THROW(third = wire(1));
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace weft::transfer
