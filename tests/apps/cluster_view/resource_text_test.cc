#include "apps/cluster_view/resource_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace weft::apps {
namespace {

actors::HostStatus host(const std::string& name) {
  actors::HostStatus status;
  status.offer.name = name;
  status.total = {.devices = 2, .cpus = 8, .memory = std::uint64_t{16} << 30};
  return status;
}

actors::ReservationStatus room() {
  actors::ReservationStatus room;
  room.name = "room";
  room.owner = "run x";
  room.needs = "2 x {devices 1}";
  room.places = {{"a", {0}}, {"b", {1}}};
  room.bundle_users = {"pool", ""};
  return room;
}

TEST(ResourceText, IsEmptyForAClusterThatCountsDevicesOnly) {
  actors::ClusterStatus status;
  status.hosts = {host("a")};
  status.hosts[0].used.devices = 2;
  EXPECT_EQ(resources_text(status), "");
  EXPECT_EQ(reservations_text(status), "");
}

TEST(ResourceText, ListsWhatIsInUseWithTheLabels) {
  actors::ClusterStatus status;
  status.hosts = {host("a"), host("worker1")};
  status.hosts[0].used = {.cpus = 0.5, .memory = std::uint64_t{1} << 30};
  status.hosts[1].total.custom = {{"licence", 2}};
  status.hosts[1].used.custom = {{"licence", 1}};
  status.hosts[1].offer.capacity.labels = {{"zone", "b"}};
  EXPECT_EQ(resources_text(status),
            "host     cpus used  memory used      other resources, labels\n"
            "a        0.5 of 8   1 GiB of 16 GiB  -\n"
            "worker1  0 of 8     0 B of 16 GiB    licence 1 of 2, zone=b\n");
  const auto json = resources_json(status.hosts[1]);
  EXPECT_EQ(json["resources"]["licence"]["used"], 1);
  EXPECT_EQ(json["labels"]["zone"], "b");
}

TEST(ResourceText, SaysWhoUsesAReservationAndWhyAnotherWaits) {
  actors::ClusterStatus status;
  status.reservations = {room(), room(), room()};
  status.reservations[1].waiting = true;
  status.reservations[1].problem = "1 of 2 bundles fit now";
  status.reservations[2].bundle_users = {"", ""};
  status.reservations[2].places[1] = {};
  status.reservations[2].problem = "1 of 2 bundles have lost their host";
  EXPECT_EQ(reservations_text(status),
            "  room of run x: 2 x {devices 1} on a, b; in use by pool\n"
            "  waiting: reservation room of run x: needs 2 x {devices 1}: 1 of 2 bundles fit now\n"
            "  room of run x: 2 x {devices 1} on a; unused; 1 of 2 bundles have lost their host\n");
  EXPECT_EQ(reservation_json(status.reservations[0])["bundles"][1]["devices"][0], 1);
  EXPECT_EQ(reservation_json(status.reservations[1])["state"], "waiting");
}

}  // namespace
}  // namespace weft::apps
