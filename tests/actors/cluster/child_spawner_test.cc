#include "actors/cluster/child_spawner.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "actors/system/system.h"
#include "tests/support/eventually.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using test::error_of;
using test::eventually;

TEST(ChildSpawner, WithdrawsTheRequestOfAnActorOfItsProcessThatIsCancelled) {
  std::mutex mutex;
  std::condition_variable changed;
  bool began = false, may_end = false;   // guarded by mutex
  std::optional<std::uint64_t> spawned;  // guarded by mutex
  std::optional<ChildStop> stopped;      // guarded by mutex
  BlockingWork work;
  System system(test::system_options("driver"));
  const auto spawner =
      system.host_with<Spawner>(kSpawnerName, [&](Context& context) -> std::unique_ptr<Spawner> {
        return std::make_unique<ChildSpawner>(
            context,
            ChildSpawner::Actions{[&](const ChildSpawn& request, const std::stop_token&) {
                                    std::unique_lock lock(mutex);
                                    spawned = request.number;
                                    began = true;
                                    changed.wait(lock, [&] { return may_end; });
                                    return SpawnedChild{{request.actors.name(), {}, {}, {}}, true};
                                  },
                                  [&](const ChildStop& request) {
                                    const std::lock_guard lock(mutex);
                                    stopped = request;
                                  },
                                  [] {}},
            work);
      });
  ChildSpawn request;
  request.parent = {system.self(), actor_id_of("root"), "root"};
  request.actors.mesh.mesh = "kid";
  auto spawning = spawner.call<&Spawner::spawn>(request);
  const auto is_so = [&](const auto& what) {
    return eventually([&] {
      const std::lock_guard lock(mutex);
      return what();
    });
  };
  EXPECT_TRUE(is_so([&] { return began; }));
  spawning.cancel();
  EXPECT_EQ(error_of([&] { (void)spawning.get(); }).code(), ErrorCode::kCancelled);
  EXPECT_TRUE(is_so([&] { return stopped.has_value(); }));
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(stopped->name, "kid");
    EXPECT_EQ(stopped->number, *spawned);
    EXPECT_NE(stopped->number, 0u);
    may_end = true;
    changed.notify_all();
  }
  spawner.stop().get();
}

}  // namespace
}  // namespace weft::actors
