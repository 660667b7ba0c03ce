#include "actors/head/host_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/system/system.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/system_options.h"

namespace weft::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Table that finds the hosts a and b in its state. Both are away. Records what its observer hears.
class HostTableTest : public ::testing::Test, private HostObserver {
 protected:
  HostTableTest() {
    store.put(StateStore::Table::kHosts, "a", encode(row("a", 41)));
    store.put(StateStore::Table::kHosts, "b", encode(row("b", 42)));
    table.read_rows();
  }
  static HostRow row(const std::string& name, std::int64_t pid) {
    HostRow row;
    row.offer.name = name;
    row.offer.devices = 2;
    row.offer.pid = pid;
    row.agent = {ProcessId(static_cast<std::uint64_t>(pid)), name, {}};
    return row;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, host] : table.all()) names.push_back(name);
    return names;
  }

  const test::ScratchFolder scratch;
  System system{test::system_options("head")};
  ManualClock clock;
  StateStore store{scratch.path()};
  ResourceAllocator devices;
  std::vector<std::string> events, heard;
  EventLog log{store, [this](const ClusterEvent& event) { events.push_back(event.text); }};
  HostTable table{system, clock, std::chrono::seconds(60), store, devices, log, *this};

 private:
  void host_added(const std::string& host) override { heard.push_back("added " + host); }
  void host_joined(const HostRegistration& host, const AgentReport&) override {
    heard.push_back("joined " + host.name);
  }
  void host_leaving(const std::string& host, const std::string& why) override {
    heard.push_back("leaving " + host + ": " + why);
  }
  void host_failed(const HostRegistration& host, const ExitReport&,
                   const std::string& note) override {
    heard.push_back("failed " + host.name + ": " + note);
  }
  void host_removed(const HostRegistration& host, const ExitReport&,
                    const std::string& note) override {
    heard.push_back("removed " + host.name + ": " + note);
  }
};

TEST_F(HostTableTest, HostsOfAnEarlierHeadAreRemovedAfterTheGrace) {
  EXPECT_TRUE(table.any_away());
  EXPECT_FALSE(devices.hosts().at(0).accepts_processes);
  clock.advance(std::chrono::seconds(60));
  table.expire();
  EXPECT_THAT(names(), ElementsAre("a", "b"));
  clock.advance(std::chrono::seconds(1));
  table.expire();
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(heard, ElementsAre("removed a: its agent (pid 41) did not reconnect within 60 s",
                                 "removed b: its agent (pid 42) did not reconnect within 60 s"));
  EXPECT_THAT(devices.hosts(), IsEmpty());
  EXPECT_THAT(store.rows(StateStore::Table::kHosts), IsEmpty());
}

TEST_F(HostTableTest, ARemovedHostIsNamedToRequestsThatCouldHaveUsedIt) {
  table.leave(ProcessId(41), "its machine is needed");
  MeshRequest request;
  EXPECT_THAT(table.removed_hosts_note(request),
              HasSubstr("host a was removed from the cluster: its agent (pid 41) has left: its "
                        "machine is needed"));
  request.hosts = {"b"};
  EXPECT_EQ(table.removed_hosts_note(request), "");
}

TEST_F(HostTableTest, AHostThatLeavesGetsNoMoreProcesses) {
  table.drain(ProcessId(42), "SIGTERM");
  table.drain(ProcessId(42), "SIGTERM again");
  table.drain(ProcessId(7), "no agent of a host");
  EXPECT_THAT(heard, ElementsAre("leaving b: SIGTERM"));
  EXPECT_THAT(events, ElementsAre("host b is leaving the cluster: SIGTERM"));
  EXPECT_TRUE(table.find("b")->leaving);
  EXPECT_FALSE(devices.hosts().at(1).accepts_processes);
}

TEST_F(HostTableTest, ASilentHostFailsAndStays) {
  table.timed_out(ProcessId(41), 10'200'000'000);
  EXPECT_THAT(heard, ElementsAre(HasSubstr("failed a: its agent (pid 41) has not responded for")));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(HostTableTest, AnAgentThatEndsWhileTheClusterStopsIsNoFailure) {
  table.expect_ends();
  table.disconnected(ProcessId(41), false);
  EXPECT_THAT(names(), ElementsAre("b"));
  EXPECT_THAT(heard, IsEmpty());
  EXPECT_THAT(events, ElementsAre("host a has ended"));
}

}  // namespace
}  // namespace weft::actors
