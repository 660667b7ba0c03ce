// Tests that only its user can access a wire's shared memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/cluster_token.h"
#include "tests/support/eventually.h"
#include "tests/support/thrown_error.h"
#include "transfer/wire_ucx/ucx_wire.h"

namespace weft::transfer {
namespace {

/// Returns the modes of the System V segments that this process has created.
std::vector<int> modes_of_own_segments() {
  std::vector<int> modes;
  std::ifstream table("/proc/sysvipc/shm");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    long key = 0, id = 0, size = 0, creator = 0;
    int mode = 0;
    fields >> key >> id >> std::oct >> mode >> std::dec >> size >> creator;
    if (creator == ::getpid()) modes.push_back(mode & 0777);
  }
  return modes;
}

class Receiver final : public WireEvents {
 public:
  void message_arrived(const Message& message) override { messages.push_back(message.id); }
  void receive_finished(Token, const Outcome<void>&) override {}
  void send_finished(Token, const Outcome<void>&) override { ++sent; }
  void peer_lost(DeviceId, const Error&) override {}
  void message_refused(std::optional<DeviceId>, std::string_view) override {}
  std::vector<MessageId> messages;
  int sent = 0;
};

TEST(UcxSegments, AreOfThisUserAloneAlsoThoseThatAppearUnderLoad) {
  const auto end = [](std::uint32_t id) {
    return make_ucx_wire(DeviceId(id), HostId(0),
                         {.secret = test::cluster_token(), .interfaces = "lo"});
  };
  const std::unique_ptr<Wire> a = end(0), b = end(1);
  Receiver at_a, at_b;
  a->set_events(at_a);
  b->set_events(at_b);
  a->connect(DeviceId(1), HostId(0), b->address());
  b->connect(DeviceId(0), HostId(0), a->address());
  if (a->path_to(DeviceId(1)) != Path::kSharedMemory)
    GTEST_SKIP() << "no System V shared memory here";
  const std::size_t before = modes_of_own_segments().size();
  // Messages that are not taken make UCX allocate more memory.
  const std::vector<std::byte> payload(64 * 1024), header(16);
  constexpr int kMessages = 400;
  for (int i = 0; i < kMessages; ++i) a->send(DeviceId(1), header, payload, Token(i));
  ASSERT_TRUE(test::eventually([&] {
    a->progress();
    b->progress();
    return at_b.messages.size() == kMessages;
  }));
  const std::vector<int> modes = modes_of_own_segments();
  EXPECT_GT(before, 0u);
  EXPECT_GT(modes.size(), before) << "none has appeared";
  for (const int mode : modes) EXPECT_EQ(mode, 0600);
  for (const MessageId message : at_b.messages) b->release(message);
  EXPECT_TRUE(test::eventually([&] {
    a->progress();
    b->progress();
    return at_a.sent == kMessages;
  }));
}

TEST(UcxNetwork, AnInterfaceThatDoesNotExistIsNamedWithTheSettingAndTheVariables) {
  ::setenv("UCX_WEFT_TEST", "1", 1);
  const std::string message =
      test::error_of([] {
        make_ucx_wire(DeviceId(0), HostId(0),
                      {.secret = test::cluster_token(), .interfaces = "nosuch0"});
      }).message();
  ::unsetenv("UCX_WEFT_TEST");
  EXPECT_NE(message.find("nosuch0, which has no address"), std::string::npos) << message;
  EXPECT_NE(message.find("cluster.hosts: {interface: NAME}"), std::string::npos) << message;
  EXPECT_NE(message.find("UCX_WEFT_TEST=1"), std::string::npos) << message;
}

}  // namespace
}  // namespace weft::transfer
