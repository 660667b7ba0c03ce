#include "actors/head/resource_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

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

std::vector<HostDevice> assign(ResourceAllocator& allocator, const MeshRequest& request,
                               const MeshKey& key) {
  std::vector<HostDevice> places = allocator.find_places(request);
  for (std::uint32_t rank = 0; rank < places.size(); ++rank)
    allocator.assign(key, rank, places[rank], request);
  return places;
}

TEST(ResourceAllocator, FillsHostsInTheOrderOfTheRequest) {
  ResourceAllocator allocator;
  allocator.add_host("a", 2);
  allocator.add_host("b", 2);
  EXPECT_THAT(assign(allocator, request("front", 1, 3, {"b", "a"}), {"front", 1}),
              ElementsAre(HostDevice{"b", 0}, HostDevice{"b", 1}, HostDevice{"a", 0}));
  EXPECT_THAT(assign(allocator, request("back", 1, 1), {"back", 1}),
              ElementsAre(HostDevice{"a", 1}));
}

TEST(ResourceAllocator, WithoutDevicesTakesTheHostsOfTheRequestInTurn) {
  ResourceAllocator allocator;
  for (const char* host : {"a", "b", "c"}) allocator.add_host(host, 2);
  MeshRequest pool = request("pool", 1, 3, {"b", "a"});
  pool.needs = {};
  EXPECT_THAT(assign(allocator, pool, {"pool", 1}),
              ElementsAre(HostDevice{"b", kNoDevice}, HostDevice{"a", kNoDevice},
                          HostDevice{"b", kNoDevice}));
  pool.strategy = PlacementStrategy::kPack;
  EXPECT_THAT(assign(allocator, pool, {"packed", 1}),
              ElementsAre(HostDevice{"b", kNoDevice}, HostDevice{"b", kNoDevice},
                          HostDevice{"b", kNoDevice}));
}

TEST(ResourceAllocator, ALostDeviceIsReplacedOnItsHostOrElseOnTheFirstHostWithAFreeDevice) {
  ResourceAllocator allocator;
  allocator.add_host("a", 2);
  allocator.add_host("b", 1);
  allocator.add_host("spare", 1);
  const MeshRequest wanted = request("front", 1, 2, {"a", "spare"});
  const auto places = assign(allocator, wanted, {"front", 1});
  allocator.free({"front", 1}, 1);
  EXPECT_THAT(allocator.find_replacements(wanted, places, {1}), ElementsAre(HostDevice{"a", 1}));
  allocator.remove_host("a");
  EXPECT_THAT(allocator.find_replacements(wanted, places, {0}),
              ElementsAre(HostDevice{"spare", 0}));
  const auto replace_both = [&] { (void)allocator.find_replacements(wanted, places, {0, 1}); };
  EXPECT_THAT(error_of(replace_both).message(),
              ::testing::HasSubstr("has lost 2 ranks, and there is room for only 1"));
  allocator.set_away("spare", true);
  EXPECT_THAT(error_of(replace_both).message(), ::testing::HasSubstr("room for none"));
}

TEST(ResourceAllocator, NothingIsPlacedOnAHostThatIsAwayAndWhatItHasStays) {
  ResourceAllocator allocator;
  allocator.add_host("a", 1);
  allocator.add_host("b", 2);
  assign(allocator, request("front", 1, 1, {"b"}), {"front", 1});
  allocator.set_away("b", true);
  EXPECT_THAT(allocator.find_places(request("back", 1, 1)), ElementsAre(HostDevice{"a", 0}));
  const Error named = error_of([&] { allocator.find_places(request("back", 1, 1, {"b"})); });
  EXPECT_EQ(named.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(named.message(),
            "mesh 'back' needs host 'b', which does not answer the head at the moment");
  const Error full = error_of([&] { allocator.find_places(request("back", 2, 1)); });
  EXPECT_EQ(full.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(full.message(), ::testing::HasSubstr("b     2        1     does not answer"));
  allocator.set_away("b", false);
  EXPECT_THAT(allocator.find_places(request("back", 2, 1)),
              ElementsAre(HostDevice{"a", 0}, HostDevice{"b", 1}));
}

TEST(ResourceAllocator, AMeshThatDoesNotFitChangesNothingAndNamesTheReason) {
  ResourceAllocator allocator;
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

TEST(ResourceAllocator, DevicesComeBack) {
  ResourceAllocator allocator;
  allocator.add_host("a", 1);
  assign(allocator, request("front", 1, 1), {"front", 1});
  allocator.free({"front", 1});
  EXPECT_EQ(assign(allocator, request("front", 1, 1), {"front", 2}).size(), 1u);
}

TEST(ResourceAllocator, UnknownHostNamesTheOnesThatJoined) {
  ResourceAllocator allocator;
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

TEST(ResourceAllocator, TwoHostsOfOneNameAreRefused) {
  ResourceAllocator allocator;
  allocator.add_host("a", 1);
  EXPECT_EQ(error_of([&] { allocator.add_host("a", 1); }).code(), ErrorCode::kAlreadyExists);
  allocator.remove_host("a");
  EXPECT_NO_THROW(allocator.add_host("a", 1));
}

TEST(ResourceAllocator, NothingNewGoesToAHostThatLeaves) {
  ResourceAllocator allocator;
  allocator.add_host("a", 2);
  allocator.add_host("b", 2);
  allocator.set_leaving("a");
  MeshRequest request;
  request.mesh = "front";
  request.shape = {{"x", 2}};
  for (const HostDevice& place : allocator.find_places(request)) EXPECT_EQ(place.host, "b");
  request.hosts = {"a"};
  EXPECT_THAT([&] { (void)allocator.find_places(request); },
              test::throws_error(ErrorCode::kUnavailable, "'a', which is leaving the cluster"));
}

MeshRequest needing(Resources needs, std::int64_t ranks) {
  MeshRequest request;
  request.mesh = "pool";
  request.shape = {{"worker", ranks}};
  request.needs = std::move(needs);
  return request;
}

Amounts host_of(std::uint32_t devices, double cpus, double licences = 0) {
  return amounts_of("host", {devices, cpus, std::uint64_t{4} << 30, {{"licence", licences}}});
}

TEST(ResourceAllocator, CountsFractionsOfProcessorsUntilTheMeshIsFreed) {
  ResourceAllocator allocator;
  allocator.add_host("a", host_of(0, 1));
  allocator.add_host("b", host_of(0, 1));
  const MeshRequest half = needing({.cpus = 0.5}, 3);
  EXPECT_THAT(assign(allocator, half, {"pool", 1}),
              ElementsAre(HostDevice{"a", kNoDevice}, HostDevice{"b", kNoDevice},
                          HostDevice{"a", kNoDevice}));
  EXPECT_EQ(allocator.used_on("a").cpus, 1);
  const Error full = error_of([&] { (void)allocator.find_places(needing({.cpus = 0.501}, 1)); });
  EXPECT_EQ(full.code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "mesh 'pool' [worker=1] needs {cpus 0.501}, and a, b have room for 0 of 1:\n"
            "  host  cpus free  in use by\n"
            "  a     0 of 1     mesh pool (2)\n"
            "  b     0.5 of 1   mesh pool (1)\n"
            "Give it more hosts, ask for less, or end what uses the resources.");
  EXPECT_TRUE(allocator.could_fit(needing({.cpus = 0.501}, 1)));
  allocator.free({"pool", 1}, 1);
  EXPECT_THAT(allocator.find_places(needing({.cpus = 1}, 1)),
              ElementsAre(HostDevice{"b", kNoDevice}));
  allocator.free({"pool", 1});
  EXPECT_EQ(allocator.used_on("a"), Resources{});
}

TEST(ResourceAllocator, SingleActorsGoToTheLeastLoadedHostWithRoom) {
  ResourceAllocator allocator;
  allocator.add_host("a", host_of(2, 4));
  allocator.add_host("b", host_of(0, 1));
  allocator.add_host("c", host_of(0, 4));
  const auto spawn = [&](const std::string& name, const Resources& needs) {
    MeshRequest one = needing(needs, 1);
    one.mesh = name;
    return assign(allocator, one, {name, 1}).front().host;
  };
  // A list evaluates its elements in order; operands of + have none.
  const std::vector<std::string> equal{spawn("1", {}), spawn("2", {}), spawn("3", {})};
  EXPECT_THAT(equal, ElementsAre("a", "b", "c"));
  EXPECT_EQ(spawn("trains", {.devices = 1}), "a");
  const std::vector<std::string> next{spawn("4", {}), spawn("5", {}), spawn("6", {})};
  EXPECT_THAT(next, ElementsAre("b", "c", "b")) << "a is in use by half";
  EXPECT_EQ(spawn("7", {.cpus = 2}), "c") << "b has no room";
}

TEST(ResourceAllocator, TenTenthsOfAProcessorAreOne) {
  ResourceAllocator allocator;
  allocator.add_host("a", host_of(0, 1));
  for (std::uint64_t epoch = 1; epoch <= 10; ++epoch)
    (void)assign(allocator, needing({.cpus = 0.1}, 1), {"pool", epoch});
  EXPECT_EQ(allocator.used_on("a").cpus, 1);
  EXPECT_EQ(error_of([&] { (void)allocator.find_places(needing({.cpus = 0.1}, 1)); }).code(),
            ErrorCode::kResourceExhausted);
}

/// Reservation of the meshes `front`, of two ranks on host a, and `back`, of one on b or a.
ReservationRequest run_meshes() {
  ReservationRequest request{"run", std::vector<Resources>(3, Resources{.devices = 1})};
  request.meshes = {{"front", {{"x", 2}}, {"a"}}, {"back", {{"x", 1}}, {"b", "a"}}};
  return request;
}

TEST(ResourceAllocator, MeshesOfARunHaveTheirHostsAndShareAReservation) {
  ResourceAllocator allocator;
  allocator.add_host("actors only", 0);
  allocator.add_host("a", 2);
  allocator.add_host("b", 1);
  const ReservationRequest run = run_meshes();
  const auto bundles = allocator.find_bundles(run);
  ASSERT_TRUE(bundles.has_value());
  EXPECT_THAT(*bundles,
              ElementsAre(BundlePlace{"a", {0}}, BundlePlace{"a", {1}}, BundlePlace{"b", {0}}));
  EXPECT_EQ(allocator.candidates(run), (std::set<std::string>{"a", "b"}));
  const MeshKey key{"run", 1};
  allocator.reserve(key, run, *bundles);
  EXPECT_FALSE(allocator.find_bundles(run).has_value());
  EXPECT_EQ(allocator.num_fitting(run), 0u);
  MeshRequest back = request("back", 1, 1);
  back.reservation = key;
  back.first_bundle = 2;
  EXPECT_THAT(assign(allocator, back, {"back", 1}), ElementsAre(HostDevice{"b", 0}));
  EXPECT_THAT(allocator.bundle_users(key).at(2), ElementsAre("back"));
  back.first_bundle = 3;
  EXPECT_THAT(error_of([&] { (void)allocator.find_places(back); }).message(),
              ::testing::HasSubstr("has 3 bundles of which it skips 3"));
  allocator.release(key);
  EXPECT_EQ(allocator.num_fitting(run), 2u) << "the mesh keeps its device";
  allocator.free({"back", 1});
  EXPECT_TRUE(allocator.find_bundles(run).has_value());
}

TEST(ResourceAllocator, ABundleOfARunIsLostWithItsHost) {
  ResourceAllocator allocator;
  allocator.add_host("a", 3);
  allocator.add_host("b", 1);
  const MeshKey key{"run", 1};
  allocator.reserve(key, run_meshes(), *allocator.find_bundles(run_meshes()));
  allocator.remove_host("b");
  EXPECT_FALSE(allocator.replace_lost(key, run_meshes())) << "the run places it anew itself";
  MeshRequest back = request("back", 1, 1);
  back.reservation = key;
  back.first_bundle = 2;
  const Error lost = error_of([&] { (void)allocator.find_places(back); });
  EXPECT_EQ(lost.code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(lost.message(), "mesh 'back': bundle 2 of reservation 'run' has lost its host");
}

TEST(ResourceAllocator, MeshesOfARunWithoutRoomNameTheFirstThatLacksSome) {
  ResourceAllocator allocator;
  allocator.add_host("a", 2);
  EXPECT_FALSE(allocator.could_fit(run_meshes()));
  const Error missing = allocator.shortage(run_meshes());
  EXPECT_EQ(missing.code(), ErrorCode::kNotFound);
  EXPECT_THAT(missing.message(), ::testing::HasSubstr("mesh 'back' needs host 'b', which has not"));
  allocator.add_host("b", 0);
  EXPECT_EQ(allocator.shortage(run_meshes()).message(),
            "beside the other meshes of its run, mesh 'back' [x=1] (1 devices) does not fit on b, "
            "a, where 0 are free:\n"
            "  host  devices  free  in use by\n"
            "  a     2        2     -\n"
            "  b     0        0     -\n"
            "Give it more hosts, a smaller shape, or end what uses the devices.");
  ReservationRequest with_spare = run_meshes();
  with_spare.meshes[1].hosts = {"b"};
  with_spare.spares = {"spare"};
  EXPECT_FALSE(allocator.could_fit(with_spare));
  allocator.add_host("spare", 1);
  EXPECT_EQ(allocator.find_bundles(with_spare)->back().host, "spare");
}

TEST(ResourceAllocator, WhatNoHostHasIsRefusedWithTheRemedy) {
  ResourceAllocator allocator;
  allocator.add_host("a", host_of(1, 4, 1), {{"zone", "a"}});
  allocator.add_host("b", host_of(2, 8), {{"zone", "b"}});
  MeshRequest request = needing({.devices = 1, .custom = {{"licence", 1}}}, 1);
  request.labels = {{"zone", "b"}};
  const Error error = error_of([&] { (void)allocator.find_places(request); });
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(error.message(),
            "mesh 'pool' [worker=1] needs {devices 1, licence 1} of hosts with label zone=b, and "
            "a, b cannot hold that even without other users:\n"
            "  host  devices  free  licence free  labels  in use by\n"
            "  a     1        1     1 of 1        zone=a  -\n"
            "  b     2        2     0 of 0        zone=b  -\n"
            "Ask for less, or join more hosts, such as: weft join HOST:PORT --name NAME "
            "--devices 1 --resource licence=1 --label zone=b");
  EXPECT_FALSE(allocator.could_fit(request));
  request.needs = {};
  request.labels = {{"zone", "c"}};
  EXPECT_THAT(error_of([&] { (void)allocator.find_places(request); }).message(),
              ::testing::StartsWith(
                  "mesh 'pool' [worker=1] needs hosts with label zone=c, and a, b cannot hold"));
  request.needs = {.devices = 1, .custom = {{"licence", 1}}};
  request.labels = {{"zone", "a"}};
  EXPECT_THAT(allocator.find_places(request), ElementsAre(HostDevice{"a", 0}));
}

TEST(ResourceAllocator, AMeshOfTooManyRanksIsRefusedWithoutASearch) {
  ResourceAllocator allocator;
  allocator.add_host("a", host_of(1, 1));
  const MeshRequest huge = needing({}, std::int64_t{1} << 60);
  EXPECT_THAT([&] { (void)allocator.find_places(huge); },
              test::throws_error(ErrorCode::kInvalidArgument, "places at most 100000"));
  EXPECT_FALSE(allocator.could_fit(huge));
}

TEST(ResourceAllocator, NumbersThatAreNoAmountsAreRefused) {
  for (const Resources& wrong :
       {Resources{.cpus = -1}, Resources{.cpus = 1e300}, Resources{.cpus = 1e-5},
        Resources{.custom = {{"cpus", 1}}}, Resources{.custom = {{"../x", 1}}}})
    EXPECT_EQ(error_of([&] { (void)amounts_of("mesh 'pool'", wrong); }).code(),
              ErrorCode::kInvalidArgument);
  const Resources most{3, 0.125, 1 << 20, {{"licence", 2}}};
  EXPECT_EQ(resources_of(amounts_of("host", most)), most);
}

TEST(ResourceAllocator, TheNextEpochOfAMeshKeepsWhatItsRanksHave) {
  ResourceAllocator allocator;
  allocator.add_host("a", host_of(2, 2));
  const MeshRequest request = needing({.devices = 1, .cpus = 1}, 2);
  const auto places = assign(allocator, request, {"pool", 1});
  allocator.move({"pool", 1}, {"pool", 2}, 0);
  allocator.free({"pool", 1}, 1);
  EXPECT_THAT(allocator.find_replacements(request, places, {1}), ElementsAre(HostDevice{"a", 1}));
  allocator.assign({"pool", 2}, 1, places[1], request);
  allocator.free({"pool", 1});
  EXPECT_EQ(allocator.used_on("a").cpus, 2);
  EXPECT_EQ(allocator.used_on("a").devices, 2u);
  allocator.free({"pool", 2});
  EXPECT_EQ(allocator.used_on("a"), Resources{});
}

TEST(ResourceAllocator, RanksOfAStrictMeshComeBackByItsRule) {
  ResourceAllocator allocator;
  for (const char* name : {"a", "b", "c"}) allocator.add_host(name, host_of(2, 2));
  MeshRequest request = needing({.cpus = 1}, 2);
  request.strategy = PlacementStrategy::kStrictSpread;
  const auto places = assign(allocator, request, {"pool", 1});
  EXPECT_NE(places[0].host, places[1].host);
  allocator.free({"pool", 1}, 1);
  allocator.remove_host("b");
  EXPECT_THAT(allocator.find_replacements(request, places, {1}),
              ElementsAre(HostDevice{"c", kNoDevice}));
  allocator.set_leaving("c");
  EXPECT_THAT(error_of([&] { (void)allocator.find_replacements(request, places, {1}); }).message(),
              ::testing::HasSubstr("has lost 1 rank on 2 hosts, and there is room for none"));
  request.strategy = PlacementStrategy::kStrictPack;
  EXPECT_THAT(allocator.find_replacements(request, places, {1}),
              ElementsAre(HostDevice{"a", kNoDevice}));
}

TEST(ResourceAllocator, ALostRankGoesOnlyToHostsOfItsRequest) {
  ResourceAllocator allocator;
  for (const char* name : {"a", "b", "c"}) allocator.add_host(name, host_of(2, 2));
  for (const Resources& needs : {Resources{}, Resources{.cpus = 1}}) {
    MeshRequest request = needing(needs, 3);
    request.hosts = {"c"};
    const std::vector<HostDevice> places = {{"a", kNoDevice}, {"b", kNoDevice}, {"b", kNoDevice}};
    EXPECT_THAT(allocator.find_replacements(request, places, {1}),
                ElementsAre(HostDevice{"b", kNoDevice}))
        << "its last host";
    ResourceAllocator now = allocator;
    now.set_away("a", true);
    now.set_leaving("b");
    EXPECT_THAT(now.find_replacements(request, places, {0}),
                ElementsAre(HostDevice{"c", kNoDevice}));
    EXPECT_THAT(now.find_replacements(request, places, {1}),
                ElementsAre(HostDevice{"c", kNoDevice}));
    now.remove_host("b");
    EXPECT_THAT(now.find_replacements(request, places, {0}),
                ElementsAre(HostDevice{"c", kNoDevice}));
    now.remove_host("c");
    EXPECT_EQ(error_of([&] { (void)now.find_replacements(request, places, {0}); }).code(),
              ErrorCode::kResourceExhausted);
  }
}

TEST(ResourceAllocator, LostRanksOfAStrictMeshAreCountedWithoutTheOthers) {
  ResourceAllocator allocator;
  for (const char* name : {"a", "b", "c", "d"}) allocator.add_host(name, host_of(2, 2));
  MeshRequest request = needing({.cpus = 1}, 4);
  request.strategy = PlacementStrategy::kStrictSpread;
  const auto places = assign(allocator, request, {"pool", 1});
  allocator.remove_host(places[2].host);
  allocator.remove_host(places[3].host);
  allocator.add_host("e", host_of(2, 2));
  EXPECT_THAT(error_of([&] {
                (void)allocator.find_replacements(request, places, {2, 3});
              }).message(),
              ::testing::HasSubstr("has lost 2 ranks on 4 hosts, and there is room for only 1"));
}

ReservationRequest bundles(std::vector<Resources> of, PlacementStrategy strategy) {
  return {"room", std::move(of), {}, strategy};
}

/// Reserves; the key is that of the tests.
void reserve(ResourceAllocator& allocator, const ReservationRequest& request) {
  const auto places = allocator.find_bundles(request);
  ASSERT_TRUE(places);
  allocator.reserve({"room", 1}, request, *places);
}

TEST(ResourceAllocator, ABundleHoldsMeshesUpToItsSize) {
  ResourceAllocator allocator;
  allocator.add_host("a", host_of(2, 4));
  const auto request = bundles({{.devices = 2, .cpus = 1}, {.cpus = 2}}, PlacementStrategy::kPack);
  reserve(allocator, request);
  EXPECT_EQ(allocator.used_on("a"), (Resources{.devices = 2, .cpus = 3}));
  EXPECT_EQ(error_of([&] { (void)allocator.find_places(needing({.devices = 1}, 1)); }).code(),
            ErrorCode::kResourceExhausted);
  EXPECT_THAT(allocator.hosts().at(0).users, ElementsAre(MeshKey{"room", 1}, MeshKey{"room", 1}));

  MeshRequest inside = needing({.devices = 1, .cpus = 0.5}, 1);
  inside.reservation = {"room", 1};
  EXPECT_THAT(assign(allocator, inside, {"pool", 1}), ElementsAre(HostDevice{"a", 0}));
  EXPECT_THAT(assign(allocator, inside, {"eval", 1}), ElementsAre(HostDevice{"a", 1}));
  EXPECT_EQ(allocator.used_on("a"), (Resources{.devices = 2, .cpus = 3})) << "counted once";
  EXPECT_THAT(error_of([&] { (void)allocator.find_places(inside); }).message(),
              ::testing::HasSubstr("bundle 0 of reservation 'room' with {devices 2, cpus 1} "
                                   "meshes have a part: eval, pool"));
  inside.shape = {{"worker", 2}};
  EXPECT_THAT(error_of([&] { (void)allocator.find_places(inside); }).message(),
              ::testing::HasSubstr("stop one of them"));
  inside.shape = {{"worker", 3}};
  EXPECT_THAT(error_of([&] { (void)allocator.find_places(inside); }).message(),
              ::testing::HasSubstr("has 3 ranks, and reservation 'room' has 2 bundles"));
  inside = needing({.cpus = 1.5}, 1);
  inside.reservation = {"room", 1};
  EXPECT_THAT(error_of([&] { (void)allocator.find_places(inside); }).message(),
              ::testing::HasSubstr("needs {cpus 1.5} for each rank, and bundle 0 of reservation "
                                   "'room' has {devices 2, cpus 1}"));
  allocator.free({"pool", 1});
  allocator.release({"room", 1});
  EXPECT_EQ(allocator.used_on("a"), (Resources{.devices = 1, .cpus = 0.5})) << "of eval";
  EXPECT_EQ(error_of([&] { (void)allocator.find_places(inside); }).code(),
            ErrorCode::kFailedPrecondition);
  allocator.free({"eval", 1});
  EXPECT_EQ(allocator.used_on("a"), Resources{});
}

TEST(ResourceAllocator, ABundleOfALostHostMovesToAnother) {
  ResourceAllocator allocator;
  allocator.add_host("a", host_of(1, 1));
  allocator.add_host("b", host_of(1, 1));
  const auto request = bundles({{.devices = 1}, {.devices = 1}}, PlacementStrategy::kStrictSpread);
  reserve(allocator, request);
  MeshRequest inside = needing({.devices = 1}, 2);
  inside.reservation = {"room", 1};
  const auto places = assign(allocator, inside, {"pool", 1});
  allocator.remove_host("b");
  EXPECT_FALSE(allocator.replace_lost({"room", 1}, request));
  EXPECT_THAT(allocator.bundle_places({"room", 1}),
              ElementsAre(BundlePlace{"a", {0}}, BundlePlace{}));
  EXPECT_EQ(error_of([&] { (void)allocator.find_replacements(inside, places, {1}); }).code(),
            ErrorCode::kUnavailable);
  allocator.add_host("c", host_of(1, 1));
  EXPECT_TRUE(allocator.replace_lost({"room", 1}, request));
  EXPECT_THAT(allocator.find_replacements(inside, places, {1}), ElementsAre(HostDevice{"c", 0}));
  allocator.set_leaving("c");
  allocator.add_host("d", host_of(1, 1));
  EXPECT_TRUE(allocator.replace_lost({"room", 1}, request)) << "an unused bundle leaves, too";
  EXPECT_THAT(allocator.bundle_places({"room", 1}),
              ElementsAre(BundlePlace{"a", {0}}, BundlePlace{"d", {0}}));
}

TEST(ResourceAllocator, AReservationWithoutRoomSaysWhatIsMissing) {
  ResourceAllocator allocator;
  allocator.add_host("a", host_of(2, 4));
  allocator.add_host("b", host_of(2, 4));
  EXPECT_THAT(allocator.shortage(bundles({{.devices = 4}}, PlacementStrategy::kPack)).message(),
              ::testing::AllOf(
                  ::testing::HasSubstr("needs {devices 4}, and a, b cannot hold that even without "
                                       "other users:\n"),
                  ::testing::HasSubstr("weft join HOST:PORT --name NAME --devices 4")));
  const Resources licence{.custom = {{"licence", 1}}};
  EXPECT_THAT(
      allocator.shortage(bundles({{.cpus = 1}, licence}, PlacementStrategy::kSpread)).message(),
      ::testing::HasSubstr("weft join HOST:PORT --name NAME --resource licence=1"))
      << "not the options of the first bundle, which fits";
}

TEST(ResourceAllocator, ManyLargestBundlesDoNotOverflow) {
  ResourceAllocator allocator;
  allocator.add_host("a", host_of(2, 4));
  const Resources largest{.memory = std::uint64_t{1} << 50};
  const std::vector<Resources> many(9'000, largest);
  EXPECT_FALSE(allocator.could_fit(bundles(many, PlacementStrategy::kSpread)));
  EXPECT_EQ(allocator.shortage(bundles(many, PlacementStrategy::kPack)).code(),
            ErrorCode::kResourceExhausted);
}

TEST(ResourceAllocator, CountersTellWhichResultsMayHaveChanged) {
  ResourceAllocator allocator;
  allocator.add_host("a", host_of(1, 4));
  const std::uint64_t hosts = allocator.host_changes(), freed = allocator.changes(),
                      revision = allocator.revision();
  const auto request = bundles({{.devices = 1}}, PlacementStrategy::kPack);
  reserve(allocator, request);
  EXPECT_EQ(allocator.changes(), freed) << "there is no more room than before";
  EXPECT_GT(allocator.revision(), revision);
  allocator.release({"room", 1});
  EXPECT_GT(allocator.changes(), freed);
  EXPECT_EQ(allocator.host_changes(), hosts);
  allocator.set_leaving("a");
  EXPECT_GT(allocator.host_changes(), hosts);
}

/// Random meshes and reservations come and go: no host ever gives more than it has, and all comes
/// back.
TEST(ResourceAllocator, NeverGivesMoreThanAHostHas) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t limit) {
    return static_cast<std::uint32_t>(random() % limit);
  };
  const auto some = [&] {
    return Resources{
        .devices = below(2), .cpus = below(5) / 2.0, .custom = {{"licence", below(2)}}};
  };
  for (int world = 0; world < 200; ++world) {
    ResourceAllocator allocator;
    std::vector<std::string> hosts;
    const auto add = [&] {
      hosts.push_back("h" + std::to_string(hosts.size()));
      allocator.add_host(hosts.back(), host_of(below(3), below(5), below(3)));
    };
    for (std::uint32_t i = 1 + below(3); i > 0; --i) add();
    std::map<MeshKey, bool> living;  // true: a reservation
    for (std::uint32_t step = 1; step <= 60; ++step) {
      const auto strategy = static_cast<PlacementStrategy>(below(5));
      const MeshKey key{"x", step};
      if (below(3) == 0 && !living.empty()) {
        const auto victim = std::next(living.begin(), below(std::uint32_t(living.size())));
        if (victim->second) allocator.release(victim->first);
        else allocator.free(victim->first);
        living.erase(victim);
      } else if (below(2) == 0) {
        MeshRequest request = needing(some(), 1 + below(3));
        request.strategy = strategy;
        for (const auto& [other, is_room] : living)
          if (is_room && below(2) == 0) request.reservation = other;
        try {
          assign(allocator, request, key);
          living[key] = false;
        } catch (const Error&) {
        }
      } else {
        const auto request = bundles({some(), some(), some()}, strategy);
        if (const auto places = allocator.find_bundles(request)) {
          allocator.reserve(key, request, *places);
          living[key] = true;
        }
      }
      if (below(20) == 0) add();
      if (below(20) == 0 && hosts.size() > 1) allocator.remove_host(hosts[below(2)]);
      for (const std::string& host : hosts)
        ASSERT_TRUE(fits(amounts_of("u", allocator.used_on(host)),
                         amounts_of("t", allocator.total_of(host))))
            << "world " << world << " step " << step << " host " << host;
    }
    for (const auto& [key, is_room] : living)
      if (is_room) allocator.release(key);
      else allocator.free(key);
    for (const std::string& host : hosts) ASSERT_EQ(allocator.used_on(host), Resources{});
  }
}

}  // namespace
}  // namespace weft::actors
