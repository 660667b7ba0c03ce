// Tests a head that finds a damaged state file, or a damaged row in it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "actors/head/cluster_rows.h"
#include "actors/head/head.h"
#include "actors/head/state_store.h"
#include "actors/system/system.h"
#include "tests/fuzz/fuzz_time.h"
#include "tests/fuzz/mutator.h"
#include "tests/support/cluster_token.h"
#include "tests/support/scratch_folder.h"

namespace weft::actors {
namespace {

using Table = StateStore::Table;

ProcessRef process(std::uint64_t id, const std::string& name) {
  return {ProcessId(id), name, {"127.0.0.1", static_cast<std::uint16_t>(id)}};
}

/// Writes the state of a cluster with two hosts and a run that has a mesh on them.
void write_state(const std::filesystem::path& folder, test::Mutator* mutator) {
  // Index of the row that is damaged; 99: none.
  const std::uint64_t damaged = mutator == nullptr ? 99 : mutator->below(4);
  std::uint64_t number = 0;
  const auto row = [&](const auto& value) {
    const std::vector<std::byte> bytes = encode(value);
    return number++ == damaged ? mutator->damage(bytes) : bytes;
  };
  StateStore store(folder);
  HostRow host{{"worker0", 2, 41, "machine", "avx2", false, "logs", 2}, process(7, "worker0")};
  store.put(Table::kHosts, "worker0", row(host));
  host.offer.name = "worker1";
  host.agent = process(8, "worker1");
  store.put(Table::kHosts, "worker1", row(host));
  const MeshKey key{"front", store.next_mesh_epoch("front")};
  store.put(Table::kOwners, "r", row(OwnerRow{{"run r", 43, {key}}, process(9, "run r")}));
  MeshRow mesh;
  mesh.request = {"front",    MeshShape({{"data", 2}}), {"worker0", "worker1"},
                  "/bin/gpt", std::string(64, 'a'),     {"A=B"}};
  mesh.owner = ProcessId(9);
  mesh.places = {{"worker0", 0}, {"worker1", 1}};
  mesh.processes = {{0, {"worker0", 0}, process(10, "front[0]"), 51, "log0"},
                    {1, {"worker1", 1}, process(11, "front[1]"), 52, "log1"}};
  store.put(Table::kMeshes, key.text(), row(mesh));
  store.add_event({5, "worker0 joined"});
  store.sync_to_disk();
}

/// Starts a head from this state and queries it. Returns false if the head refuses to start, with
/// an error that names the state.
bool starts(const std::filesystem::path& folder) {
  SystemOptions options;
  options.token = test::cluster_token();
  options.log = Log::standard_error(LogLevel::kError);
  System system(options);
  const HeadEvents events{[](const ClusterEvent&) {}, [](const std::string&) {},
                          [](const std::string&) {}};
  try {
    const auto head = system.host_with<Head>("head", [&](Context& context) {
      return std::make_unique<Head>(context, HeadConfig{{"127.0.0.1", 1}, folder}, events);
    });
    EXPECT_LE(head.call<&Head::status>().get().hosts.size(), 2u);
    head.tell<&Head::expire_silent_peers>();
    (void)head.call<&Head::incidents>().get();
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kIncompatible ||
                error.code() == ErrorCode::kFailedPrecondition)
        << error.what();
    EXPECT_NE(error.message().find("state"), std::string::npos) << error.message();
    return false;
  }
}

class StateFuzz : public ::testing::Test {
 protected:
  const test::ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path() / "state";
  int started_ = 0, refused_ = 0;
};

TEST_F(StateFuzz, ADamagedFileIsRefusedOrRead) {
  write_state(folder_, nullptr);
  std::ifstream in(folder_ / "head.db", std::ios::binary);
  const std::string sound(std::istreambuf_iterator<char>(in), {});
  test::FuzzTime time(150);
  test::Mutator mutator(19 + time.seed());
  while (time.more() && !HasFailure()) {
    SCOPED_TRACE(time.round());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "head.db", std::ios::binary) << mutator.damage(sound);
    ++(starts(folder_) ? started_ : refused_);
  }
  EXPECT_GT(started_, 10);
  EXPECT_GT(refused_, 3);
}

TEST_F(StateFuzz, ARowThatIsDamagedIsRefusedOrRead) {
  test::FuzzTime time(150);
  test::Mutator mutator(23 + time.seed());
  while (time.more() && !HasFailure()) {
    SCOPED_TRACE(time.round());
    std::filesystem::remove_all(folder_);
    write_state(folder_, &mutator);
    ++(starts(folder_) ? started_ : refused_);
  }
  EXPECT_GT(started_, 10);
  EXPECT_GT(refused_, 10);
}

}  // namespace
}  // namespace weft::actors
