#include "actors/head/run_placement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace weft::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

HostDevices host(const std::string& name, std::vector<MeshKey> users, bool answers = true) {
  return {name, answers, std::move(users)};
}
const MeshKey kFree;

MeshToPlace mesh(const std::string& name, std::int64_t size, std::vector<std::string> hosts) {
  return {.name = name, .size = size, .hosts = std::move(hosts)};
}
MeshToPlace placed(MeshToPlace mesh, std::vector<HostDevice> places,
                   std::set<std::uint32_t> broken = {}) {
  mesh.key = {mesh.name, 1};
  mesh.places = std::move(places);
  mesh.broken = std::move(broken);
  return mesh;
}

TEST(RunPlacement, RanksFillTheHostsOfTheirMeshInOrder) {
  const auto plan =
      place_run({host("w0", {kFree, kFree}), host("w1", {kFree, kFree})},
                {mesh("a", 3, {"w1", "w0"}), mesh("b", 1, {})}, {}, HostScope::kOwnHosts);
  EXPECT_THAT(plan.problem, IsEmpty());
  EXPECT_THAT(plan.places, ElementsAre(ElementsAre(HostDevice{"w1", 0}, HostDevice{"w1", 1},
                                                   HostDevice{"w0", 0}),
                                       ElementsAre(HostDevice{"w0", 1})));
}

TEST(RunPlacement, AMeshLeavesAHostToOneThatHasNoOther) {
  const auto plan =
      place_run({host("w0", {kFree}), host("w1", {kFree})},
                {mesh("a", 1, {"w0", "w1"}), mesh("b", 1, {"w0"})}, {}, HostScope::kOwnHosts);
  EXPECT_THAT(plan.problem, IsEmpty());
  EXPECT_THAT(plan.places,
              ElementsAre(ElementsAre(HostDevice{"w1", 0}), ElementsAre(HostDevice{"w0", 0})));
}

TEST(RunPlacement, SparesAreForMeshesWhoseHostsAreNotThere) {
  const std::vector<MeshToPlace> meshes = {mesh("a", 1, {"w0"})};
  const MeshKey other{"other", 1};
  // The device of w0 may become free soon, so no spare is used.
  const auto busy = place_run({host("w0", {other}), host("spare", {kFree})}, meshes, {"spare"},
                              HostScope::kOwnHosts);
  EXPECT_THAT(busy.problem, HasSubstr("mesh 'a' is missing 1 of its 1 devices"));
  EXPECT_THAT(busy.problem, HasSubstr("w0: 1 used by mesh other"));
  EXPECT_THAT(busy.lacking, ElementsAre(1u));
  const auto gone = place_run({host("w0", {kFree}, false), host("spare", {kFree})}, meshes,
                              {"spare"}, HostScope::kOwnHosts);
  EXPECT_THAT(gone.places, ElementsAre(ElementsAre(HostDevice{"spare", 0})));
}

TEST(RunPlacement, AMeshThatIsNotStartedKeepsItsDeviceWhenAnotherLosesItsHost) {
  // Mesh a was on w0, which does not respond. Mesh b has not started yet.
  const std::vector<MeshToPlace> meshes = {placed(mesh("a", 1, {"w0"}), {{"w0", 0}}, {0}),
                                           mesh("b", 1, {"w1"})};
  const auto waits = place_run({host("w1", {kFree})}, meshes, {}, HostScope::kWholeRun);
  EXPECT_THAT(waits.problem, HasSubstr("1 of its hosts does not respond: w"));
  // Both meshes get their own hosts when w0 responds again.
  const auto back =
      place_run({host("w1", {kFree}), host("w0", {kFree})}, meshes, {}, HostScope::kWholeRun);
  EXPECT_THAT(back.problem, IsEmpty());
  EXPECT_THAT(back.places,
              ElementsAre(ElementsAre(HostDevice{"w0", 0}), ElementsAre(HostDevice{"w1", 0})));
}

TEST(RunPlacement, AHostThatIsBackIsForAMeshWhoseOwnHostAnotherHas) {
  const MeshKey a{"a", 1};
  const auto plan = place_run({host("w1", {a}), host("w0", {kFree})},
                              {placed(mesh("a", 1, {"w0"}), {{"w1", 0}}), mesh("b", 1, {"w1"})}, {},
                              HostScope::kWholeRun);
  EXPECT_THAT(plan.problem, IsEmpty());
  EXPECT_THAT(plan.places,
              ElementsAre(ElementsAre(HostDevice{"w1", 0}), ElementsAre(HostDevice{"w0", 0})));
}

TEST(RunPlacement, TheDeviceOfABrokenRankIsForItsOwnMeshAlone) {
  const MeshKey a{"a", 1};
  const std::vector<HostDevices> hosts = {host("w0", {a})};
  EXPECT_THAT(
      place_run(hosts, {placed(mesh("a", 1, {"w0"}), {{"w0", 0}}, {0})}, {}, HostScope::kWholeRun)
          .places,
      ElementsAre(ElementsAre(HostDevice{"w0", 0})));
  EXPECT_THAT(place_run(hosts, {mesh("b", 1, {"w0"})}, {}, HostScope::kWholeRun).problem,
              HasSubstr("mesh 'b' is missing"));
}

// --- comparison with brute force

struct Case {
  std::vector<HostDevices> hosts;
  std::vector<MeshToPlace> meshes;
  std::vector<std::string> spares;
};

/// Returns a run of up to three meshes. Some hosts do not respond; some ranks are broken.
Case random_case(std::mt19937& random) {
  const auto upto = [&](int most) { return static_cast<int>(random() % (most + 1)); };
  Case made;
  for (int h = 0; h <= 1 + upto(2); ++h)
    made.hosts.push_back(
        host(fmt::format("w{}", h), std::vector<MeshKey>(1 + upto(1)), upto(5) > 0));
  for (int m = 0; m <= upto(2); ++m) {
    MeshToPlace one = mesh(fmt::format("m{}", m), 1 + upto(1), {});
    for (int h = 0; h < 5; ++h)  // w4 does not exist
      if (upto(2) == 0) one.hosts.push_back(fmt::format("w{}", h));
    if (upto(1) == 0) {
      // Place the mesh on devices that were free; some of these places are lost.
      one.key = {one.name, 1};
      for (std::uint32_t rank = 0; rank < one.size; ++rank) {
        HostDevice place{"w4", 0};
        for (HostDevices& each : made.hosts)
          for (std::uint32_t device = 0; device < each.users.size(); ++device)
            if (place.host == "w4" && each.users[device].name.empty() && upto(2) == 0)
              place = {each.name, device};
        const bool broken = place.host == "w4" || upto(1) == 0;
        if (broken) one.broken.insert(rank);
        for (HostDevices& each : made.hosts)
          if (each.name == place.host && (!broken || upto(1) == 0))
            each.users[place.device] = one.key;
        one.places.push_back(place);
      }
    }
    made.meshes.push_back(std::move(one));
  }
  if (upto(1) == 0) made.spares.push_back("w1");
  return made;
}

struct Missing {
  std::size_t mesh;
  std::uint32_t rank;
};

std::vector<Missing> missing_of(const Case& made) {
  std::vector<Missing> missing;
  for (std::size_t m = 0; m < made.meshes.size(); ++m)
    for (std::uint32_t rank = 0; rank < made.meshes[m].size; ++rank)
      if (rank >= made.meshes[m].places.size() || made.meshes[m].broken.contains(rank))
        missing.push_back({m, rank});
  return missing;
}

bool may_have(const Case& made, const Missing& of, const HostDevices& at, std::uint32_t device) {
  const MeshToPlace& mesh = made.meshes[of.mesh];
  if (!at.accepts_processes) return false;
  std::set<std::string> names(made.spares.begin(), made.spares.end());
  bool any = mesh.hosts.empty();
  for (const MeshToPlace& each : made.meshes) names.insert(each.hosts.begin(), each.hosts.end());
  if (of.rank < mesh.places.size() && mesh.places[of.rank].host == at.name) any = true;
  if (!any && !names.contains(at.name)) return false;
  if (at.users[device].name.empty()) return true;
  if (at.users[device] != mesh.key) return false;
  for (const std::uint32_t broken : mesh.broken)
    if (broken < mesh.places.size() && mesh.places[broken] == HostDevice{at.name, device})
      return true;
  return false;
}

/// Returns how many missing ranks can stay on their hosts at most when all of them get a device.
/// Empty if not all can get one.
std::optional<int> best_of(const Case& made, const std::vector<Missing>& missing, std::size_t next,
                           std::set<std::pair<std::string, std::uint32_t>>& used) {
  if (next == missing.size()) return 0;
  std::optional<int> best;
  for (const HostDevices& at : made.hosts) {
    for (std::uint32_t device = 0; device < at.users.size(); ++device) {
      if (!may_have(made, missing[next], at, device)) continue;
      if (!used.emplace(at.name, device).second) continue;
      if (const auto rest = best_of(made, missing, next + 1, used)) {
        const auto& places = made.meshes[missing[next].mesh].places;
        const bool home =
            missing[next].rank < places.size() && places[missing[next].rank].host == at.name;
        best = std::max(best.value_or(0), *rest + (home ? 1 : 0));
      }
      used.erase({at.name, device});
    }
  }
  return best;
}

TEST(RunPlacement, FindsAPlacementIfOneExistsAndMovesNoDeviceWithoutNeed) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  int complete = 0, incomplete = 0, moved = 0;
  for (int turn = 0; turn < 4000; ++turn) {
    const Case made = random_case(random);
    const std::vector<Missing> missing = missing_of(made);
    std::set<std::pair<std::string, std::uint32_t>> used;
    const auto best = best_of(made, missing, 0, used);
    const RunPlacement plan = place_run(made.hosts, made.meshes, made.spares, HostScope::kWholeRun);
    ASSERT_EQ(plan.problem.empty(), best.has_value()) << turn << ": " << plan.problem;
    (best ? complete : incomplete) += 1;
    if (!best) continue;
    int home = 0;
    for (const Missing& each : missing) {
      const HostDevice& place = plan.places[each.mesh][each.rank];
      const auto at = std::ranges::find(made.hosts, place.host, &HostDevices::name);
      ASSERT_NE(at, made.hosts.end()) << turn;
      ASSERT_TRUE(may_have(made, each, *at, place.device)) << turn;
      ASSERT_TRUE(used.emplace(place.host, place.device).second) << turn << ": given twice";
      const auto& before = made.meshes[each.mesh].places;
      home += each.rank < before.size() && before[each.rank].host == place.host ? 1 : 0;
    }
    EXPECT_LE(home, *best) << turn;
    if (*best == std::ssize(missing)) {
      EXPECT_EQ(home, *best) << turn << ": all could have stayed";
    }
    if (home < *best) ++moved;
    for (const MeshToPlace& each : made.meshes)
      for (std::uint32_t rank = 0; rank < each.places.size(); ++rank)
        if (!each.broken.contains(rank)) {
          const auto m = static_cast<std::size_t>(&each - made.meshes.data());
          EXPECT_EQ(plan.places[m][rank], each.places[rank])
              << turn << ": one that lives has moved";
        }
  }
  EXPECT_GT(complete, 500);
  EXPECT_GT(incomplete, 500);
  EXPECT_EQ(moved, 0) << "of " << complete << ": more ranks could have stayed";
}

}  // namespace
}  // namespace weft::actors
