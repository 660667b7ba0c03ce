#include "actors/cluster/failure_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;

Incident death_on(const std::string& mesh, std::uint64_t epoch = 1) {
  ProcessFailure failure;
  failure.mesh = mesh;
  failure.epoch = epoch;
  failure.host = "worker1";
  failure.evidence.signal = 9;
  return {mesh, epoch, {failure}, 0};
}

bool always() { return true; }

TEST(FailureRecord, TheFirstFailureCounts) {
  FailureRecord record(FailureScope::kAllMeshes, false);
  EXPECT_EQ(record.first(), std::nullopt);
  EXPECT_TRUE(record.record(death_on("front"), always));
  EXPECT_TRUE(record.record(death_on("back"), always));
  EXPECT_FALSE(record.record(death_on("front"), always)) << "a head repeats its reports";
  EXPECT_EQ(record.first()->message(), death_on("front").error().message());
  EXPECT_EQ(record.incident()->mesh, "front");
  EXPECT_EQ(record.root_cause(Error(ErrorCode::kUnavailable, "symptom")),
            death_on("front").summary());
  EXPECT_EQ(record.count(), 2u);
  EXPECT_TRUE(record.has_failed({"back", 1}));
  EXPECT_FALSE(record.has_failed({"back", 2}));
  EXPECT_EQ(record.of_mesh({"side", 1}, 0ns), std::nullopt);
}

TEST(FailureRecord, AFailureOfARecoveredMeshIsNotTheFirst) {
  FailureRecord record(FailureScope::kAllMeshes, true);
  EXPECT_TRUE(record.record(death_on("front"), [] { return false; }));
  EXPECT_EQ(record.first(), std::nullopt);
  EXPECT_TRUE(record.has_failed({"front", 1}));
}

TEST(FailureRecord, ClearingStartsAfreshUnlessTheClusterIsLost) {
  FailureRecord record(FailureScope::kAllMeshes, true);
  record.record(death_on("front"), always);
  record.clear();
  EXPECT_EQ(record.first(), std::nullopt);
  EXPECT_EQ(record.root_cause(Error(ErrorCode::kUnavailable, "symptom")), "symptom");
  EXPECT_TRUE(record.record_cluster_loss(Error(ErrorCode::kCancelled, "stopped")));
  EXPECT_FALSE(record.record_cluster_loss(Error(ErrorCode::kCancelled, "stopped again")));
  EXPECT_EQ(record.first()->message(), "stopped");
  EXPECT_THAT([&] { record.clear(); }, test::throws_error(ErrorCode::kCancelled, "stopped"));
}

TEST(FailureRecord, OwnersThatSurviveSpawnAnotherMesh) {
  FailureRecord coupled(FailureScope::kAllMeshes, false);
  coupled.record(death_on("front"), always);
  EXPECT_EQ(test::error_of([&] { coupled.check_spawn(); }), death_on("front").error());
  coupled.survive_deaths();
  EXPECT_NO_THROW(coupled.check_spawn());
  FailureRecord separate(FailureScope::kOneMesh, false);
  separate.record(death_on("front"), always);
  EXPECT_NO_THROW(separate.check_spawn());
  separate.record_cluster_loss(Error(ErrorCode::kCancelled, "stopped"));
  EXPECT_EQ(test::error_of([&] { separate.check_spawn(); }), death_on("front").error());
}

TEST(FailureRecord, WaitsEndWithAFailure) {
  FailureRecord record(FailureScope::kAllMeshes, true);
  EXPECT_FALSE(record.wait_for_more(0, 1ms));
  record.record_lost_device({"front", 1}, always);
  record.record(death_on("front"), always);
  record.wait_for_explanation();
  record.wait_for_first(1h);
  EXPECT_TRUE(record.wait_for_more(0, 1h));
  EXPECT_TRUE(record.of_mesh({"front", 1}, 1h));
  record.record_cluster_loss(Error(ErrorCode::kCancelled, "stopped"));
  EXPECT_TRUE(record.wait_for_more(1, 1h));
  EXPECT_EQ(record.of_mesh({"back", 1}, 1h), std::nullopt);
}

}  // namespace
}  // namespace weft::actors
