#include "actors/cluster/repeated_stops.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <tuple>

#include "tests/support/eventually.h"
#include "tests/support/system_options.h"

namespace weft::actors {
namespace {

using test::eventually;

class Kid final {
 public:
  explicit Kid(Context& context) : epoch_(context.restart_info().epoch) { ++living; }
  ~Kid() { --living; }
  std::uint64_t epoch() const { return epoch_; }
  static inline std::atomic<int> living{0};
  static constexpr auto endpoints = interface<"test.kid", 1>(on<&Kid::epoch>("epoch"));

 private:
  const std::uint64_t epoch_;
};

SystemOptions device_options() {
  SystemOptions options = test::system_options("device");
  options.keep_actors_without_owner = true;
  return options;
}

TEST(RepeatedStops, GoOnUntilTheProcessIsReachedAndSpareLaterEpochs) {
  System device(device_options());
  device.provide<Kid>();
  const Address at = device.listen({"127.0.0.1", 0});
  const auto spawn = [&](System& owner, std::uint64_t epoch) {
    const SpawnedActors wanted{
        interface_version<Kid>(), "kid", MeshShape(), encode(std::tuple<>()), {}};
    return *owner.spawn_actors(wanted, {owner.connect(at)}, RestartInfo{epoch}).addresses[0];
  };
  {
    System former(test::system_options("former"));
    (void)spawn(former, 1);
    former.declare_dead(device.self().id, Error(ErrorCode::kPeerDied, "lost"));
    ASSERT_TRUE(eventually([&] { return device.peers().empty(); }));
  }
  System owner(test::system_options("owner"));
  ProcessRef cut_off = device.self();
  cut_off.address = System(test::system_options("ended")).listen({"127.0.0.1", 0});
  RepeatedStops stops(owner);
  stops.add(cut_off, {"kid", 1});
  std::atomic<bool> has_failed = false;
  owner.run_after(RepeatedStops::kRepeatAfter + RepeatedStops::kRepeatAfter / 2,
                  [&] { has_failed = true; });
  ASSERT_TRUE(eventually([&] { return has_failed.load(); }));
  EXPECT_EQ(stops.size(), 1u);
  EXPECT_EQ(Kid::living, 1);
  // Reaches the process.
  const ActorAddress next = spawn(owner, 2);
  ASSERT_TRUE(eventually([&] { return stops.size() == 0; }));
  EXPECT_EQ(Kid::living, 1) << "that of the first epoch has ended";
  EXPECT_EQ(owner.ref<Kid>(next).call<&Kid::epoch>().get(), 2u);
}

}  // namespace
}  // namespace weft::actors
