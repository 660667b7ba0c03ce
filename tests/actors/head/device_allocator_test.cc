#include "actors/head/device_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using test::error_of;
using ::testing::ElementsAre;

MeshRequest request(const std::string& mesh, std::int64_t data, std::int64_t tensor,
                    std::vector<std::string> hosts = {}) {
  return {mesh, MeshShape{{"data", data}, {"tensor", tensor}}, std::move(hosts), "", "", {}};
}

std::vector<HostDevice> assign(DeviceAllocator& allocator, const MeshRequest& request,
                               const MeshKey& key) {
  std::vector<HostDevice> places = allocator.find_devices(request);
  allocator.assign(places, key);
  return places;
}

TEST(DeviceAllocator, FillsHostsInTheOrderOfTheRequest) {
  DeviceAllocator allocator;
  allocator.add_host("a", 2);
  allocator.add_host("b", 2);
  EXPECT_THAT(assign(allocator, request("front", 1, 3, {"b", "a"}), {"front", 1}),
              ElementsAre(HostDevice{"b", 0}, HostDevice{"b", 1}, HostDevice{"a", 0}));
  EXPECT_THAT(assign(allocator, request("back", 1, 1), {"back", 1}),
              ElementsAre(HostDevice{"a", 1}));
}

TEST(DeviceAllocator, ALostDeviceIsReplacedOnItsHostOrElseOnTheFirstHostWithAFreeDevice) {
  DeviceAllocator allocator;
  allocator.add_host("a", 2);
  allocator.add_host("b", 1);
  allocator.add_host("spare", 1);
  const MeshRequest wanted = request("front", 1, 2, {"a", "spare"});
  const auto places = assign(allocator, wanted, {"front", 1});
  allocator.free(std::vector<HostDevice>{places[1]});
  EXPECT_THAT(allocator.find_replacements(wanted, {places[1]}), ElementsAre(HostDevice{"a", 1}));
  allocator.remove_host("a");
  EXPECT_THAT(allocator.find_replacements(wanted, {places[0]}),
              ElementsAre(HostDevice{"spare", 0}));
  EXPECT_THAT(error_of([&] { (void)allocator.find_replacements(wanted, places); }).message(),
              ::testing::HasSubstr("has lost 2 devices, and of a, spare only 1 are free"));
  allocator.set_away("spare", true);
  EXPECT_THAT(error_of([&] { (void)allocator.find_replacements(wanted, places); }).message(),
              ::testing::HasSubstr("none is free"));
}

TEST(DeviceAllocator, NothingIsPlacedOnAHostThatIsAwayAndWhatItHasStays) {
  DeviceAllocator allocator;
  allocator.add_host("a", 1);
  allocator.add_host("b", 2);
  assign(allocator, request("front", 1, 1, {"b"}), {"front", 1});
  allocator.set_away("b", true);
  EXPECT_THAT(allocator.find_devices(request("back", 1, 1)), ElementsAre(HostDevice{"a", 0}));
  const Error named = error_of([&] { allocator.find_devices(request("back", 1, 1, {"b"})); });
  EXPECT_EQ(named.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(named.message(),
            "mesh 'back' needs host 'b', which does not answer the head at the moment");
  const Error full = error_of([&] { allocator.find_devices(request("back", 2, 1)); });
  EXPECT_EQ(full.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(full.message(), ::testing::HasSubstr("b     2        1     does not answer"));
  allocator.set_away("b", false);
  EXPECT_THAT(allocator.find_devices(request("back", 2, 1)),
              ElementsAre(HostDevice{"a", 0}, HostDevice{"b", 1}));
}

TEST(DeviceAllocator, AMeshThatDoesNotFitChangesNothingAndNamesTheReason) {
  DeviceAllocator allocator;
  allocator.add_host("worker0", 2);
  allocator.add_host("w1", 2);
  assign(allocator, request("back", 1, 1, {"worker0"}), {"back", 1});
  const Error error = error_of([&] { assign(allocator, request("front", 2, 2), {"front", 1}); });
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(
      error.message(),
      "mesh 'front' [data=2,tensor=2] (4 devices) does not fit on worker0, w1, where 3 are free:\n"
      "  host     devices  free  in use by\n"
      "  worker0  2        1     mesh back (1)\n"
      "  w1       2        2     -\n"
      "Give it more hosts, a smaller shape, or end what uses the devices.");
  EXPECT_EQ(assign(allocator, request("other", 3, 1), {"other", 1}).size(), 3u);
}

TEST(DeviceAllocator, DevicesComeBack) {
  DeviceAllocator allocator;
  allocator.add_host("a", 1);
  assign(allocator, request("front", 1, 1), {"front", 1});
  allocator.free({"front", 1});
  EXPECT_EQ(assign(allocator, request("front", 1, 1), {"front", 2}).size(), 1u);
}

TEST(DeviceAllocator, UnknownHostNamesTheOnesThatJoined) {
  DeviceAllocator allocator;
  allocator.add_host("worker0", 1);
  const Error error = error_of([&] {
    assign(allocator, request("front", 1, 1, {"worker1"}), {"front", 1});
  });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_EQ(error.message(),
            "mesh 'front' needs host 'worker1', which has not joined; joined: worker0. Start it "
            "with: weft "
            "join HOST:PORT --name worker1");
}

TEST(DeviceAllocator, TwoHostsOfOneNameAreRefused) {
  DeviceAllocator allocator;
  allocator.add_host("a", 1);
  EXPECT_EQ(error_of([&] { allocator.add_host("a", 1); }).code(), ErrorCode::kAlreadyExists);
  allocator.remove_host("a");
  EXPECT_NO_THROW(allocator.add_host("a", 1));
}

TEST(DeviceAllocator, NothingNewGoesToAHostThatLeaves) {
  DeviceAllocator allocator;
  allocator.add_host("a", 2);
  allocator.add_host("b", 2);
  allocator.set_leaving("a");
  MeshRequest request;
  request.mesh = "front";
  request.shape = {{"x", 2}};
  for (const HostDevice& place : allocator.find_devices(request)) EXPECT_EQ(place.host, "b");
  request.hosts = {"a"};
  EXPECT_THAT([&] { (void)allocator.find_devices(request); },
              test::throws_error(ErrorCode::kUnavailable, "'a', which is leaving the cluster"));
}

}  // namespace
}  // namespace weft::actors
