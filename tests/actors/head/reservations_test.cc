// Reservations of a head, whose hosts and owners the test plays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/head/head.h"
#include "actors/system/system.h"
#include "core/base/error.h"
#include "core/base/thread.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kSecond = 1'000'000'000;

HostRegistration host_offer(const std::string& name, std::uint32_t devices,
                            const std::string& zone) {
  HostRegistration offer;
  offer.name = name;
  offer.devices = devices;
  offer.pid = 41;
  offer.capacity.cpus = 4;
  offer.capacity.labels = {{"zone", zone}};
  return offer;
}

ReservationRequest request_of(const std::string& name, std::vector<Resources> bundles,
                              std::int64_t within_ns = 60 * kSecond) {
  ReservationRequest request{name, std::move(bundles)};
  request.within_ns = within_ns;
  return request;
}

std::vector<Resources> devices(std::size_t count) {
  return std::vector<Resources>(count, Resources{.devices = 1});
}

class ReservationsTest : public ::testing::Test {
 protected:
  ReservationsTest() { start_head(); }

  void start_head() {
    head_system.emplace(test::system_options("head"));
    at = head_system->listen({"127.0.0.1", 0});
    const HeadEvents callbacks{[this](const ClusterEvent& event) {
                                 const std::lock_guard lock(events_mutex);
                                 events.push_back(event.text);
                               },
                               [](const std::string&) {}, [](const std::string&) {}};
    own = head_system->host_with<Head>("head", [&](Context& context) {
      return std::make_unique<Head>(context, HeadConfig{at, scratch.path()}, callbacks);
    });
    of_a = head_of(agent_a);
    of_b = head_of(agent_b);
    of_x = head_of(x);
    of_y = head_of(y);
    of_a.call<&Head::join>(host_offer("a", 2, "a"), AgentReport()).get();
    of_b.call<&Head::join>(host_offer("b", 1, "b"), AgentReport()).get();
    of_x.call<&Head::register_owner>(OwnerRegistration{"run x", 43, {}, held_by_x, "x"}).get();
    of_y.call<&Head::register_owner>(OwnerRegistration{"run y", 44}).get();
  }
  ActorRef<Head> head_of(System& caller) const {
    return caller.named<Head>(caller.connect(at), "head");
  }
  Future<ReservedBundles> begin(const ActorRef<Head>& head, const ReservationRequest& wanted) {
    return head.within(std::chrono::minutes(2)).call<&Head::reserve>(wanted);
  }
  ReservedBundles reserve(const ActorRef<Head>& head, const ReservationRequest& wanted) {
    return begin(head, wanted).get();
  }
  ClusterStatus status() { return own.call<&Head::status>().get(); }
  /// Returns the reservations that wait: "big of run y: 2 of 3 bundles fit now".
  std::vector<std::string> waiting() {
    std::vector<std::string> list;
    for (const ReservationStatus& each : status().reservations)
      if (each.waiting) list.push_back(each.name + " of " + each.owner + ": " + each.problem);
    return list;
  }
  void wait_for_waiting(std::size_t count) {
    ASSERT_TRUE(test::eventually([&] { return waiting().size() == count; }));
  }

  test::ScratchFolder scratch;
  Mutex events_mutex;
  std::vector<std::string> events;  // guarded by events_mutex: texts of what the head recorded
  std::vector<MeshKey> held_by_x;
  System agent_a{test::system_options("a")}, agent_b{test::system_options("b")},
      x{test::system_options("x")}, y{test::system_options("y")};
  Address at;
  std::optional<System> head_system;
  ActorRef<Head> own, of_a, of_b, of_x, of_y;
};

TEST_F(ReservationsTest, AreGrantedAsAWholeAndFoundAgainByName) {
  const auto wanted = request_of("room", {{.devices = 1, .cpus = 1}, {.cpus = 2}, {.devices = 1}});
  const ReservedBundles room = reserve(of_x, wanted);
  EXPECT_THAT(room.places,
              ElementsAre(BundlePlace{"a", {0}}, BundlePlace{"a", {}}, BundlePlace{"a", {1}}));
  EXPECT_EQ(reserve(of_x, wanted).key, room.key);
  const ClusterStatus now = status();
  EXPECT_THAT(now.hosts.at(0).device_users, ElementsAre("reservation room of run x, bundle 0",
                                                        "reservation room of run x, bundle 2"));
  EXPECT_EQ(now.hosts.at(0).used, (Resources{.devices = 2, .cpus = 3}));
  EXPECT_EQ(now.reservations.at(0).needs, "{devices 1, cpus 1}, {cpus 2}, {devices 1}");
  EXPECT_EQ(test::error_of([&] { reserve(of_x, request_of("room", devices(1))); }).code(),
            ErrorCode::kAlreadyExists);
  EXPECT_NO_THROW(reserve(of_y, request_of("room", {{.cpus = 1}}))) << "each owner has its names";
  EXPECT_EQ(test::error_of([&] { of_y.call<&Head::release_reservation>(room.key).get(); }).code(),
            ErrorCode::kFailedPrecondition);
  of_x.call<&Head::release_reservation>(room.key).get();
  EXPECT_EQ(status().hosts.at(0).used.devices, 0u);
}

TEST_F(ReservationsTest, BadRequestsAreRefusedAtOnce) {
  const auto code = [&](const ReservationRequest& wanted) {
    return test::error_of([&] { reserve(of_x, wanted); }).code();
  };
  EXPECT_EQ(code(request_of("../x", devices(1))), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(request_of("room", {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(request_of("room", {Resources()})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(request_of("room", {{.cpus = -1}})), ErrorCode::kInvalidArgument);
  auto elsewhere = request_of("room", devices(1));
  elsewhere.hosts = {"c"};
  EXPECT_EQ(code(elsewhere), ErrorCode::kNotFound);
  const Error large = test::error_of([&] { reserve(of_x, request_of("room", devices(4))); });
  EXPECT_EQ(large.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(large.message(), HasSubstr("reservation 'room' (4 devices) does not fit on a, b"));
  auto strict = request_of("room", {{.cpus = 3}, {.cpus = 3}});
  strict.strategy = PlacementStrategy::kStrictPack;
  EXPECT_THAT(test::error_of([&] { reserve(of_x, strict); }).message(),
              HasSubstr("needs 2 x {cpus 3} on one host, and a, b cannot hold that even without"));
  EXPECT_THAT(status().reservations, IsEmpty());
}

TEST_F(ReservationsTest, WaitUntilOthersReleaseWhatTheyNeed) {
  const ReservedBundles first = reserve(of_x, request_of("first", devices(2)));
  auto second = begin(of_y, request_of("second", devices(2)));
  wait_for_waiting(1);
  EXPECT_THAT(waiting(), ElementsAre("second of run y: 1 of 2 bundles fit now"));
  EXPECT_FALSE(second.ready());
  of_x.call<&Head::release_reservation>(first.key).get();
  EXPECT_EQ(second.get().places.size(), 2u);
  EXPECT_THAT(waiting(), IsEmpty());
}

TEST_F(ReservationsTest, FailAfterTheirTimeWithTheReason) {
  (void)reserve(of_x, request_of("first", devices(2)));
  const Error late =
      test::error_of([&] { reserve(of_y, request_of("second", devices(2), kSecond / 10)); });
  EXPECT_EQ(late.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(
      late.message(),
      HasSubstr("reservation 'second' was not granted within 0.1 s: reservation 'second' (2 "
                "devices) does not fit on a, b, where 1 is free"));
  EXPECT_THAT(late.message(), HasSubstr("reservation first (2)"));
  EXPECT_THAT(waiting(), IsEmpty());
}

TEST_F(ReservationsTest, ALargeOneIsNotOvertakenByLaterOnesOfItsHosts) {
  const ReservedBundles first = reserve(of_x, request_of("first", devices(2)));
  auto large = request_of("large", devices(2));
  large.labels = {{"zone", "a"}};
  auto of_large = begin(of_y, large);
  wait_for_waiting(1);
  auto small = request_of("small", {{.cpus = 1}});
  small.labels = large.labels;
  auto of_small = begin(of_x, small);
  wait_for_waiting(2);
  EXPECT_THAT(waiting().at(1),
              "small of run x: reservation large of run y came first and needs the same hosts");
  auto other = small;
  other.name = "other";
  other.labels = {{"zone", "b"}};
  EXPECT_EQ(reserve(of_x, other).places.at(0).host, "b") << "it needs no host of the large one";
  of_x.call<&Head::release_reservation>(first.key).get();
  EXPECT_EQ(of_large.get().places.size(), 2u);
  EXPECT_EQ(of_small.get().places.at(0).host, "a");
}

TEST_F(ReservationsTest, EndWithTheirOwnerAndItsCalls) {
  (void)reserve(of_x, request_of("first", devices(3)));
  auto second = begin(of_y, request_of("second", devices(3)));
  wait_for_waiting(1);
  own.call<&Head::peer_disconnected>(x.self().id, false).get();
  EXPECT_EQ(second.get().places.size(), 3u);
  of_x.call<&Head::register_owner>(OwnerRegistration{"run x", 43}).get();
  auto third = begin(of_x, request_of("third", devices(1)));
  wait_for_waiting(1);
  own.call<&Head::peer_disconnected>(x.self().id, false).get();
  EXPECT_EQ(test::error_of([&] { third.get(); }).code(), ErrorCode::kCancelled);
  EXPECT_THAT(waiting(), IsEmpty());
}

TEST_F(ReservationsTest, BelongToTheNextDriverOfTheirRun) {
  const auto wanted = request_of("room", devices(2));
  const ReservedBundles room = reserve(of_x, wanted);
  (void)reserve(of_x, request_of("other", devices(1)));
  System again{test::system_options("again")};
  const auto of_again = head_of(again);
  of_again.call<&Head::register_owner>(OwnerRegistration{"run x", 45, {}, {}, "x", true}).get();
  EXPECT_EQ(reserve(of_again, wanted).key, room.key);
  EXPECT_EQ(test::error_of([&] { reserve(of_again, request_of("room", devices(1))); }).code(),
            ErrorCode::kAlreadyExists)
      << "it has it now";
  EXPECT_THAT(reserve(of_again, request_of("other", {{.cpus = 1}})).places.at(0).devices, IsEmpty())
      << "another request takes the place of the former one";
  EXPECT_EQ(status().hosts.at(1).used.devices, 0u);
}

TEST_F(ReservationsTest, SurviveTheHeadUnlessTheirOwnerDropsThem) {
  const auto wanted = request_of("room", devices(2));
  const ReservedBundles room = reserve(of_x, wanted);
  (void)reserve(of_x, request_of("dropped", devices(1)));
  // An owner that reconnects lists what it holds, at first to an owner that the head has read.
  held_by_x = {room.key};
  own = {};
  head_system.reset();
  start_head();
  EXPECT_THAT(
      status().hosts.at(0).device_users,
      ElementsAre("reservation room of run x, bundle 0", "reservation room of run x, bundle 1"));
  EXPECT_EQ(status().reservations.size(), 1u);
  EXPECT_EQ(reserve(of_x, wanted).key, room.key);
  EXPECT_EQ(reserve(of_y, request_of("room", devices(1))).key.epoch, 2u) << "no key comes twice";
}

TEST_F(ReservationsTest, BundlesOfALostHostMove) {
  auto wanted = request_of("room", devices(2));
  wanted.strategy = PlacementStrategy::kStrictSpread;
  const ReservedBundles room = reserve(of_x, wanted);
  EXPECT_EQ(room.places.at(1).host, "b");
  of_b.call<&Head::leave>(std::string("test")).get();
  const ReservationStatus lost = status().reservations.at(0);
  EXPECT_THAT(lost.problem, HasSubstr("1 of 2 bundles have lost their host"));
  of_b.call<&Head::join>(host_offer("c", 1, "b"), AgentReport()).get();
  own.call<&Head::expire_silent_peers>().get();
  EXPECT_EQ(status().reservations.at(0).places.at(1).host, "c");
  EXPECT_EQ(reserve(of_x, wanted).places.at(1).host, "c");
}

TEST_F(ReservationsTest, OfAFormerDriverSurviveTheHeadUntilTheNextDriverListsThem) {
  const auto wanted = request_of("room", devices(2));
  const ReservedBundles room = reserve(of_x, wanted);
  System again{test::system_options("again")};
  // The head restarts before the next driver has asked for the reservation, or has its answer.
  OwnerRegistration next{"run x", 45, {}, {}, "x", true};
  head_of(again).call<&Head::register_owner>(next).get();
  own = {};
  head_system.reset();
  start_head();
  EXPECT_EQ(head_of(again).call<&Head::register_owner>(next).get().adopted_meshes.size(), 0u);
  EXPECT_EQ(reserve(head_of(again), wanted).key, room.key);
  head_of(again).call<&Head::register_owner>(next).get();
  EXPECT_EQ(reserve(head_of(again), wanted).key, room.key) << "the first answer was lost";
  next.held_reservations = {room.key};
  head_of(again).call<&Head::register_owner>(next).get();
  EXPECT_EQ(status().reservations.size(), 1u);
  next.held_reservations = {};
  head_of(again).call<&Head::register_owner>(next).get();
  EXPECT_THAT(status().reservations, IsEmpty()) << "it has listed it once, and has released it";
}

TEST_F(ReservationsTest, OneThatCanNoLongerBeGrantedHoldsNobodyBack) {
  const ReservedBundles first = reserve(of_x, request_of("first", devices(1)));
  auto of_large = begin(of_y, request_of("large", devices(3)));
  wait_for_waiting(1);
  auto of_small = begin(of_x, request_of("small", devices(2)));
  wait_for_waiting(2);
  of_b.call<&Head::leave>(std::string("test")).get();
  EXPECT_THAT(waiting().at(0),
              "large of run y: 1 of 3 bundles fit now, and the present hosts cannot hold all");
  EXPECT_THAT(waiting().at(1), "small of run x: 1 of 2 bundles fit now");
  of_x.call<&Head::release_reservation>(first.key).get();
  EXPECT_EQ(of_small.get().places.size(), 2u);
  EXPECT_FALSE(of_large.ready());
}

TEST_F(ReservationsTest, LostBundlesComeBeforeReservationsThatWait) {
  auto wanted = request_of("room", devices(3));
  (void)reserve(of_x, wanted);
  auto later = begin(of_y, request_of("later", devices(1)));
  wait_for_waiting(1);
  of_b.call<&Head::leave>(std::string("test")).get();
  of_b.call<&Head::join>(host_offer("c", 1, "b"), AgentReport()).get();
  EXPECT_EQ(reserve(of_x, wanted).places.at(2).host, "c");
  EXPECT_THAT(waiting(), ElementsAre("later of run y: 0 of 1 bundles fit now"));
  own.call<&Head::peer_disconnected>(x.self().id, false).get();
  EXPECT_EQ(later.get().places.size(), 1u);
}

TEST_F(ReservationsTest, OfOneNameThatWaitAtTheSameTimeBecomeOne) {
  const ReservedBundles first = reserve(of_x, request_of("first", devices(3)));
  auto one = begin(of_y, request_of("room", devices(1)));
  wait_for_waiting(1);
  auto same = begin(of_y, request_of("room", devices(1)));
  wait_for_waiting(2);
  auto other = begin(of_y, request_of("room", devices(2)));
  wait_for_waiting(3);
  of_x.call<&Head::release_reservation>(first.key).get();
  EXPECT_EQ(one.get().key, same.get().key);
  EXPECT_EQ(test::error_of([&] { other.get(); }).code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(status().reservations.size(), 1u);
}

/// Reservation of two meshes of a run, a device each.
ReservationRequest meshes_on(const std::string& front, const std::string& back) {
  auto request = request_of("run-meshes", devices(2));
  request.meshes = {{"front", {{"x", 1}}, {front}}, {"back", {{"x", 1}}, {back}}};
  return request;
}

TEST_F(ReservationsTest, TwoRunsDoNotEachGetHalfOfTheirMeshes) {
  of_a.call<&Head::leave>(std::string("test")).get();
  of_a.call<&Head::join>(host_offer("a", 1, "a"), AgentReport()).get();
  const ReservedBundles other = reserve(of_x, request_of("other", {{.devices = 1}}));
  auto of_one = begin(of_x, meshes_on("a", "b"));
  wait_for_waiting(1);
  auto of_two = begin(of_y, meshes_on("b", "a"));
  wait_for_waiting(2);
  EXPECT_THAT(waiting(),
              ElementsAre("run-meshes of run x: 1 of 2 bundles fit now",
                          "run-meshes of run y: reservation run-meshes of run x came first and "
                          "needs the same hosts"));
  of_x.call<&Head::release_reservation>(other.key).get();
  EXPECT_EQ(of_one.get().places.size(), 2u);
  EXPECT_FALSE(of_two.ready());
  // Another driver of the run places its meshes itself.
  System again{test::system_options("again")};
  head_of(again)
      .call<&Head::register_owner>(OwnerRegistration{"run x", 45, {}, {}, "x", true})
      .get();
  EXPECT_EQ(of_two.get().places.at(0), (BundlePlace{"b", {0}}));
}

TEST_F(ReservationsTest, ARunWhoseMeshesCanNoLongerFitDoesNotWait) {
  EXPECT_EQ(test::error_of([&] { reserve(of_x, meshes_on("a", "c")); }).code(),
            ErrorCode::kNotFound);
  auto wrong = meshes_on("a", "b");
  wrong.bundles.pop_back();
  EXPECT_EQ(test::error_of([&] { reserve(of_x, wrong); }).code(), ErrorCode::kInvalidArgument);
  const ReservedBundles other = reserve(of_x, request_of("other", devices(3)));
  auto meshes = begin(of_y, meshes_on("a", "b"));
  wait_for_waiting(1);
  of_b.call<&Head::leave>(std::string("test")).get();
  EXPECT_THAT([&] { meshes.get(); },
              test::throws_error(ErrorCode::kNotFound, "mesh 'back' needs host 'b', which has"));
}

TEST_F(ReservationsTest, MayWaitForEver) {
  const ReservedBundles first = reserve(of_x, request_of("first", devices(3)));
  auto second =
      begin(of_y, request_of("second", devices(1), std::numeric_limits<std::int64_t>::max()));
  wait_for_waiting(1);
  EXPECT_FALSE(second.ready());
  of_x.call<&Head::release_reservation>(first.key).get();
  EXPECT_EQ(second.get().places.size(), 1u);
}

TEST_F(ReservationsTest, TooManyThatWaitAreRefused) {
  const ReservedBundles first = reserve(of_x, request_of("first", devices(3)));
  std::vector<Future<ReservedBundles>> waits;
  for (std::size_t i = 0; i < Reservations::kMostWaiting; ++i)
    waits.push_back(begin(of_y, request_of("room" + std::to_string(i), devices(3))));
  wait_for_waiting(waits.size());
  EXPECT_THAT([&] { (void)reserve(of_y, request_of("more", devices(1))); },
              test::throws_error(ErrorCode::kResourceExhausted, "run y waits for 100 reserv"));
  of_x.call<&Head::release_reservation>(first.key).get();
  EXPECT_EQ(waits.front().get().places.size(), 3u);
}

TEST_F(ReservationsTest, TheEventOfTheirEndNamesTheirOwner) {
  (void)reserve(of_x, request_of("room", devices(1)));
  own.call<&Head::peer_disconnected>(x.self().id, false).get();
  const std::lock_guard lock(events_mutex);
  EXPECT_THAT(events, ::testing::Contains(HasSubstr("reservation room of run x is released")));
}

}  // namespace
}  // namespace weft::actors
