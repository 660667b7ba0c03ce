// Objects between real processes. The other processes are this test program again, which
// WEFT_OBJECT_CHILD tells to run the test Serve.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/mesh/objects/object_world.h"

extern char** environ;

namespace weft::mesh {
namespace {

using test::error_of;
using test::eventually;

/// Runs a process with a Reader: "PORT NAME HOST FOLDER" of the parent, the process and its host.
TEST(ObjectChild, DISABLED_Serve) {
  const char* text = std::getenv("WEFT_OBJECT_CHILD");
  if (text == nullptr) GTEST_SKIP() << "only as the child of ObjectProcesses";
  std::istringstream words(text);
  std::uint16_t port = 0;
  std::string name, host, folder;
  words >> port >> name >> host >> folder;
  Place here(name, host, {std::uint64_t{1} << 30, folder});
  const auto reader = here.system.host<Reader>("reader");
  here.system.connect({"127.0.0.1", port});
  while (::getppid() == std::atoi(std::getenv("WEFT_OBJECT_PARENT")))
    ::poll(nullptr, 0, 50);  // until it is killed
}

class ObjectProcesses : public testing::Test {
 protected:
  ~ObjectProcesses() override {
    for (const auto& [name, pid] : children) kill_child(pid);
  }
  static void kill_child(pid_t pid) {
    ASSERT_GT(pid, 0);  // others would name groups of processes
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  actors::ActorRef<Reader> start(const std::string& name, const std::string& host) {
    ::setenv("WEFT_OBJECT_PARENT", std::to_string(::getpid()).c_str(), 1);
    ::setenv(
        "WEFT_OBJECT_CHILD",
        fmt::format("{} {} {} {}", driver.address.port, name, host, folder.path().string()).c_str(),
        1);
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<const char*> arguments = {program.c_str(), "--gtest_filter=ObjectChild.*",
                                          "--gtest_also_run_disabled_tests", "--gtest_brief=1",
                                          nullptr};
    pid_t pid = 0;
    EXPECT_EQ(::posix_spawn(&pid, program.c_str(), nullptr, nullptr,
                            const_cast<char**>(arguments.data()), environ),
              0);
    children[name] = pid;
    std::optional<actors::ProcessRef> found;
    EXPECT_TRUE(eventually([&] {
      for (const actors::ProcessRef& peer : driver.system.peers())
        if (peer.name == name) found = peer;
      return found.has_value();
    }));
    return driver.system.named<Reader>(found.value(), "reader").within(test::kPatience);
  }
  void kill(const std::string& name) {
    kill_child(children.at(name));
    children.erase(name);
  }

  test::ScratchFolder folder;
  Place driver{"driver", "a", {std::uint64_t{1} << 30, folder.path()}};
  std::map<std::string, pid_t> children;
};

std::uint64_t sum_of(std::uint64_t count) { return count * (count - 1) / 2; }

TEST_F(ObjectProcesses, MapTheMemoryOfAnotherProcess) {
  constexpr std::uint64_t kCount = 1 << 20;
  const auto one = start("one", "a");
  const auto two = start("two", "a");
  const auto owned = driver.objects.put(numbers(kCount)).get();
  EXPECT_EQ(one.call<&Reader::sum>(owned.ref()).get(), sum_of(kCount));
  EXPECT_EQ(two.call<&Reader::sum>(owned.ref()).get(), sum_of(kCount));
  for (const auto& reader : {one, two}) {
    const StoreStatus status = reader.call<&Reader::status>().get();
    EXPECT_EQ(status.copies, 0u);
    EXPECT_EQ(status.host_bytes, kCount * 4);
  }
}

TEST_F(ObjectProcesses, AReaderOutlivesTheHolderAndItsMemoryOutlivesIt) {
  const auto holder = start("holder", "b");
  const auto reader = start("reader", "b");
  const auto owned = driver.objects.put(numbers(100'000)).get();
  EXPECT_EQ(holder.call<&Reader::sum>(owned.ref()).get(), sum_of(100'000));
  EXPECT_EQ(holder.call<&Reader::status>().get().bytes_received, 400'000u);
  reader.call<&Reader::hold>(owned.ref()).get();
  EXPECT_EQ(reader.call<&Reader::status>().get().bytes_received, 0u);
  kill("holder");
  // It still reads its view; the memory of the dead process no longer counts.
  EXPECT_EQ(reader.call<&Reader::sum>(owned.ref()).get(), sum_of(100'000));
  EXPECT_EQ(reader.call<&Reader::status>().get().host_bytes, 0u);
  reader.call<&Reader::release>().get();
  // Without the holder, the reader gets a copy of its own.
  EXPECT_TRUE(eventually([&] {
    return reader.call<&Reader::sum>(owned.ref()).get() == sum_of(100'000) &&
           reader.call<&Reader::status>().get().bytes_received == 400'000u;
  }));
}

TEST_F(ObjectProcesses, ADeadReaderNoLongerKeepsAnObjectInMemory) {
  const auto reader = start("reader", "a");
  std::optional<OwnedObject<Numbers>> owned = driver.objects.put(numbers(1000)).get();
  reader.call<&Reader::hold>(owned->ref()).get();
  owned.reset();
  EXPECT_TRUE(eventually([&] { return driver.status().objects == 0; }));
  EXPECT_EQ(driver.status().host_bytes, 4000u);
  kill("reader");
  EXPECT_TRUE(eventually([&] { return driver.status().host_bytes == 0; }));
}

TEST_F(ObjectProcesses, TheDeathOfTheOwnerIsTheError) {
  const auto owner = start("owner", "b");
  const auto ref = owner.call<&Reader::put>(1000, 1).get();
  EXPECT_EQ(content(driver.get(ref)), numbers(1000));
  kill("owner");
  EXPECT_TRUE(eventually([&] { return driver.status().copies == 0; }));
  // The head, or an agent, finds out why it died.
  driver.system.declare_dead(ref.description().owner.id,
                             Error(ErrorCode::kPeerDied, "worker1 device 0 died: SIGKILL"));
  const Error error = error_of([&] { driver.get(ref); });
  EXPECT_EQ(error.code(), ErrorCode::kPeerDied);
  EXPECT_THAT(error.message(), testing::HasSubstr("worker1 device 0 died: SIGKILL"));
}

TEST_F(ObjectProcesses, ASecondCopySurvivesAKill) {
  const auto owner = start("owner", "b");
  const auto ref = owner.call<&Reader::put>(1000, 2).get();
  const auto other = start("other", "c");
  kill("owner");
  EXPECT_EQ(other.call<&Reader::sum>(ref).get(), sum_of(1000));
  EXPECT_EQ(content(driver.get(ref)), numbers(1000));
}

TEST_F(ObjectProcesses, APullContinuesFromTheOwnerWhenAnotherSourceIsKilled) {
  constexpr std::uint64_t kCount = 32 << 20;  // 128 MiB
  const auto middle = start("middle", "b");
  const auto last = start("last", "c");
  const auto owned = driver.objects.put(numbers(kCount)).get();
  auto first = middle.call<&Reader::sum>(owned.ref());
  EXPECT_TRUE(eventually([&] { return driver.status().bytes_sent > 0; }));
  auto second = last.call<&Reader::sum>(owned.ref());
  EXPECT_TRUE(eventually([&] { return driver.status().bytes_sent > (8 << 20); }));
  kill("middle");
  EXPECT_EQ(second.get(), sum_of(kCount));
  EXPECT_EQ(last.call<&Reader::status>().get().bytes_received, kCount * 4);
}

TEST_F(ObjectProcesses, ReadersOfAHostThatDieTogetherAreForgotten) {
  constexpr std::uint64_t kCount = 32 << 20;  // 128 MiB
  std::optional<OwnedObject<Numbers>> owned = driver.objects.put(numbers(kCount)).get();
  for (int round = 0; round < 3; ++round) {
    const auto first = start("first", "b");
    const auto second = start("second", "b");
    const auto third = start("third", "b");
    auto reading = first.call<&Reader::sum>(owned->ref());
    EXPECT_TRUE(eventually([&] { return driver.status().bytes_sent > 0; }));
    auto waiting = second.call<&Reader::sum>(owned->ref());
    auto waiting_too = third.call<&Reader::sum>(owned->ref());
    ::poll(nullptr, 0, 10 * round);  // the driver knows, or is about to know, that they wait
    for (const char* name : {"first", "second", "third"}) {
      ASSERT_GT(children.at(name), 0);
      ::kill(children.at(name), SIGKILL);
    }
    for (const char* name : {"first", "second", "third"}) kill(name);
  }
  const auto last = start("last", "b");
  EXPECT_EQ(last.call<&Reader::sum>(owned->ref()).get(), sum_of(kCount));
  owned.reset();
  EXPECT_TRUE(eventually([&] { return driver.status().host_bytes == 0; }));
  EXPECT_TRUE(eventually([&] { return last.call<&Reader::status>().get().host_bytes == 0; }));
  EXPECT_EQ(driver.status().objects, 0u);
}

class ObjectBroadcasts : public ObjectProcesses {
 protected:
  /// Returns the actors as a mesh.
  actors::MeshRef<Reader> mesh_of(const std::vector<actors::ActorRef<Reader>>& readers) {
    actors::MeshRef<Reader>::Addresses addresses;
    for (const auto& reader : readers)
      addresses.push_back(std::make_shared<const actors::ActorAddress>(reader.address()));
    const auto size = std::ssize(addresses);
    return {driver.system, "readers", MeshShape({{"reader", size}}), std::move(addresses)};
  }
  /// Connects the processes of a broadcast.
  static constexpr std::uint64_t kConnectCount = 1 << 18;  // 1 MiB
  void connect_by_broadcast(const actors::MeshRef<Reader>& mesh, const ObjectRef<Numbers>& object) {
    driver.objects.share(object, mesh).get();
  }
};

TEST_F(ObjectBroadcasts, AnObjectIsSharedWithEachHostOnce) {
  constexpr std::uint64_t kCount = 2'000'003;
  std::vector<actors::ActorRef<Reader>> readers;
  for (const char* host : {"b", "b", "c", "d", "a"})
    readers.push_back(start(fmt::format("{}{}", host, readers.size()), host));
  const auto owned = driver.objects.put(numbers(kCount)).get();
  driver.objects.share(owned.ref(), mesh_of(readers)).get();
  std::uint64_t received = 0, copies = 0;
  for (const auto& reader : readers) {
    const StoreStatus status = reader.call<&Reader::status>().get();
    received += status.bytes_received;
    copies += status.copies;
  }
  EXPECT_EQ(received, 3 * kCount * 4);
  EXPECT_EQ(copies, 3u);
  for (const auto& reader : readers)
    EXPECT_EQ(reader.call<&Reader::sum>(owned.ref()).get(), sum_of(kCount));
  // Nothing was received after the broadcast, and nothing is sent by another one.
  driver.objects.share(owned.ref(), mesh_of(readers)).get();
  std::uint64_t now = 0;
  for (const auto& reader : readers) now += reader.call<&Reader::status>().get().bytes_received;
  EXPECT_EQ(now, received);
}

TEST_F(ObjectBroadcasts, ABroadcastIsRepairedAfterAKill) {
  constexpr std::uint64_t kCount = 64 << 20;  // 256 MiB
  std::vector<actors::ActorRef<Reader>> readers;
  for (const char* host : {"b", "c", "d"}) readers.push_back(start(host, host));
  const auto owned = driver.objects.put(numbers(kCount)).get();
  auto sharing = driver.objects.share(owned.ref(), mesh_of(readers));
  // All have memory for the object, so that the broadcast has begun or is about to.
  for (const auto& reader : readers)
    EXPECT_TRUE(
        eventually([&] { return reader.call<&Reader::status>().get().host_bytes == kCount * 4; }));
  kill("c");
  sharing.get();
  for (const auto& reader : {readers[0], readers[2]}) {
    EXPECT_EQ(reader.call<&Reader::status>().get().copies, 1u);
    EXPECT_EQ(reader.call<&Reader::sum>(owned.ref()).get(), sum_of(kCount));
  }
}

TEST_F(ObjectBroadcasts, AMeshCallBringsALargeArgumentToItsHostsAtOnce) {
  constexpr std::uint64_t kCount = 2'000'003;
  std::vector<actors::ActorRef<Reader>> readers;
  for (const char* host : {"b", "b", "c", "d", "a"})
    readers.push_back(start(fmt::format("{}{}", host, readers.size()), host));
  const auto mesh = mesh_of(readers);
  const auto owned = driver.objects.put(numbers(kCount)).get();
  const auto received = [&] {
    std::uint64_t bytes = 0;
    for (const auto& reader : readers) bytes += reader.call<&Reader::status>().get().bytes_received;
    return bytes;
  };
  const std::vector sums(readers.size(), sum_of(kCount));
  // Twice: the second call finds the copies.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(mesh.call<&Reader::sum>(owned.ref()).get(), sums);
    EXPECT_EQ(received(), 3 * kCount * 4);
    EXPECT_EQ(driver.status().broadcasts, 1u);
  }
  // The same argument for each rank, and calls that need no plan: of one host, small, or with an
  // object for each rank.
  const auto again = driver.objects.put(numbers(kCount)).get();
  EXPECT_EQ(mesh.scatter<&Reader::sum>(std::vector(readers.size(), again.ref())).get(), sums);
  EXPECT_EQ(driver.status().broadcasts, 2u);
  const auto third = driver.objects.put(numbers(kCount)).get();
  const auto small = driver.objects.put(numbers(100)).get();
  const auto one_host = mesh_of({readers[0], readers[1]});
  EXPECT_EQ(one_host.call<&Reader::sum>(third.ref()).get(), std::vector(2, sum_of(kCount)));
  EXPECT_EQ(mesh.call<&Reader::sum>(small.ref()).get(), std::vector(5, sum_of(100)));
  EXPECT_EQ(mesh_of({readers[0], readers[2]})
                .scatter<&Reader::sum>(std::vector{third.ref(), small.ref()})
                .get(),
            (std::vector{sum_of(kCount), sum_of(100)}));
  EXPECT_EQ(driver.status().broadcasts, 2u);
}

TEST_F(ObjectBroadcasts, AMeshCallGoesOnWithoutADeadHost) {
  constexpr std::uint64_t kCount = 32 << 20;  // 128 MiB
  std::vector<actors::ActorRef<Reader>> readers;
  for (const char* host : {"b", "c", "d"}) readers.push_back(start(host, host));
  const auto mesh = mesh_of(readers).within(test::kPatience);
  const auto first = driver.objects.put(numbers(kConnectCount)).get();
  connect_by_broadcast(mesh, first.ref());
  std::optional owned(driver.objects.put(numbers(kCount)).get());
  auto calls = mesh.call_collect<&Reader::sum>(owned->ref());
  EXPECT_TRUE(eventually([&] { return driver.status().broadcasts == 2; }));
  kill("c");
  const auto sums = calls.get();
  EXPECT_EQ(sums[0].value(), sum_of(kCount));
  EXPECT_TRUE(sums[1].ok() || sums[1].error().code() == ErrorCode::kPeerDied);
  EXPECT_EQ(sums[2].value(), sum_of(kCount));
  owned.reset();
  EXPECT_TRUE(eventually([&] { return driver.status().host_bytes == kConnectCount * 4; }));
}

TEST_F(ObjectBroadcasts, TheDeathOfTheOwnerDuringABroadcastIsTheErrorUnlessThereIsACopy) {
  constexpr std::uint64_t kCount = 32 << 20;  // 128 MiB
  for (const std::uint32_t copies : {1, 2}) {
    // The driver may still know a process of the other round.
    const auto name = [&](const std::string& place) { return fmt::format("{}{}", place, copies); };
    const auto owner = start(name("owner"), "o");
    std::vector<actors::ActorRef<Reader>> readers;
    for (const char* host : {"b", "c", "d"}) readers.push_back(start(name(host), host));
    const auto mesh = mesh_of(readers).within(test::kPatience);
    connect_by_broadcast(mesh, owner.call<&Reader::put>(kConnectCount, 1).get());
    const auto ref = owner.call<&Reader::put>(kCount, copies).get();  // the driver has the second
    // A call alone may be late: readers that ask the owner before its announcement pull.
    auto shared = driver.objects.share(ref, mesh);
    EXPECT_TRUE(eventually([&] { return owner.call<&Reader::status>().get().broadcasts == 2; }));
    auto calls = mesh.call_collect<&Reader::sum>(ref);
    kill(name("owner"));
    for (const auto& sum : calls.get()) {
      if (sum.ok() || copies == 2) {
        EXPECT_EQ(sum.value(), sum_of(kCount));
      } else {
        // A reader that connects again after the death finds nobody.
        EXPECT_TRUE(sum.error().code() == ErrorCode::kPeerDied ||
                    sum.error().code() == ErrorCode::kUnavailable);
        EXPECT_THAT(sum.error().message(), testing::HasSubstr("object 2 of owner"));
      }
    }
    try {
      shared.get();
    } catch (const Error& error) {
      EXPECT_THAT(error.code(), testing::AnyOf(ErrorCode::kPeerDied, ErrorCode::kUnavailable));
    }
    for (const char* host : {"b", "c", "d"}) kill(name(host));
  }
}

TEST_F(ObjectBroadcasts, AMeshWithoutStoresIsRefused) {
  const auto owned = driver.objects.put(numbers(10)).get();
  actors::System other(test::system_options("other"));
  const auto process = driver.system.connect(other.listen({"127.0.0.1", 0}));
  const auto reader = driver.system.named<Reader>(process, "reader");
  EXPECT_EQ(error_of([&] { driver.objects.share(owned.ref(), mesh_of({reader})).get(); }).code(),
            ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace weft::mesh
