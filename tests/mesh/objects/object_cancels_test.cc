// Requests for objects that are cancelled, past their deadline, or whose processes end meanwhile.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mesh/objects/object_store.h"
#include "tests/mesh/objects/object_world.h"

namespace weft::mesh {
namespace {

using test::error_of;
using test::eventually;

constexpr std::size_t kLargeCount = 16 << 20;  // 64 MiB

class ObjectCancels : public testing::Test {
 protected:
  std::unique_ptr<Place> place(const std::string& name, const std::string& host) {
    return std::make_unique<Place>(name, host, Limits{std::uint64_t{1} << 30, folder.path()});
  }
  static actors::MeshRef<Reader> mesh_of(Place& from, const std::vector<Place*>& places) {
    actors::MeshRef<Reader>::Addresses addresses;
    for (Place* each : places) {
      const auto process = from.system.connect(each->address);
      addresses.push_back(std::make_shared<const actors::ActorAddress>(
          from.system.named<Reader>(process, "reader").address()));
    }
    const auto size = std::ssize(addresses);
    return {from.system, "readers", MeshShape({{"reader", size}}), std::move(addresses)};
  }
  /// Expects that a dropped object ends everywhere: nobody counts as one that still receives it.
  static void expect_freed(std::optional<OwnedObject<Numbers>>& owned,
                           const std::vector<Place*>& places) {
    owned.reset();
    for (Place* each : places) {
      EXPECT_TRUE(eventually([&] { return each->status().host_bytes == 0; }));
      EXPECT_EQ(each->status().objects, 0u);
      EXPECT_EQ(each->status().copies, 0u);
    }
  }

  test::ScratchFolder folder;
  std::unique_ptr<Place> owner = place("owner", "a");
};

TEST_F(ObjectCancels, AGetThatIsCancelledAtAnyTimeLeavesNothingBehind) {
  const auto one = place("one", "b"), two = place("two", "b");
  std::optional owned(owner->objects.put(numbers(1 << 20)).get());
  const auto ref = owned->ref();
  for (int i = 0; i < 60; ++i) {
    auto first = one->objects.get(ref);
    auto second = two->objects.get(ref);
    // Earlier and later, down to at once.
    if (i % 4 != 0) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(i * 60);
      while (std::chrono::steady_clock::now() < until) {
      }
    }
    first.cancel();
    if (i % 2 == 0) second.cancel();
    else EXPECT_EQ(content(second.get()), numbers(1 << 20)) << i;
  }
  EXPECT_EQ(content(one->get(ref)), numbers(1 << 20));
  EXPECT_EQ(content(two->get(ref)), numbers(1 << 20));
  expect_freed(owned, {owner.get(), one.get(), two.get()});
}

TEST_F(ObjectCancels, AMappingThatIsCancelledDoesNotKeepTheObject) {
  const auto near = place("near", "a");
  std::optional owned(owner->objects.put(numbers(1000)).get());
  for (int i = 0; i < 200; ++i) {
    auto reading = near->objects.get(owned->ref());
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(i * 5);
    while (std::chrono::steady_clock::now() < until) {
    }
    reading.cancel();
  }
  expect_freed(owned, {owner.get(), near.get()});
}

TEST_F(ObjectCancels, AGetPastItsDeadlineLeavesNothingBehind) {
  const auto one = place("one", "b"), two = place("two", "b");
  std::optional owned(owner->objects.put(numbers(kLargeCount)).get());
  const auto ref = owned->ref();
  std::size_t late = 0;
  for (int i = 0; i < 12; ++i) {
    auto reading = one->objects.get(ref, std::chrono::milliseconds(1 + 2 * i));
    try {
      reading.get();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
      ++late;
    }
  }
  EXPECT_GT(late, 0u);
  EXPECT_EQ(content(two->get(ref)), numbers(kLargeCount));
  expect_freed(owned, {owner.get(), one.get(), two.get()});
}

TEST_F(ObjectCancels, AnotherObjectOfTheSameSourceIsNotDisturbed) {
  const auto reader = place("reader", "b");
  std::optional large(owner->objects.put(numbers(kLargeCount)).get());
  std::optional small(owner->objects.put(numbers(kLargeCount, 7)).get());
  auto reading = reader->objects.get(large->ref());
  auto other = reader->objects.get(small->ref());
  EXPECT_TRUE(eventually([&] { return reader->status().bytes_received > 0; }));
  other.cancel();
  EXPECT_EQ(content(reading.get()), numbers(kLargeCount));
  EXPECT_EQ(content(reader->get(small->ref())), numbers(kLargeCount, 7));
  small.reset();
  expect_freed(large, {owner.get(), reader.get()});
}

TEST_F(ObjectCancels, AShareThatIsCancelledAtAnyTimeLeavesNothingBehind) {
  const auto one = place("one", "b"), two = place("two", "c");
  const auto mesh = mesh_of(*owner, {one.get(), two.get()});
  for (int i = 0; i < 10; ++i) {
    std::optional owned(owner->objects.put(numbers(kLargeCount / 4)).get());
    auto sharing = owner->objects.share(owned->ref(), mesh);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(i * 4);
    while (std::chrono::steady_clock::now() < until) {
    }
    sharing.cancel();
    EXPECT_EQ(content(one->get(owned->ref())), numbers(kLargeCount / 4)) << i;
    EXPECT_EQ(content(two->get(owned->ref())), numbers(kLargeCount / 4)) << i;
    expect_freed(owned, {owner.get(), one.get(), two.get()});
  }
}

TEST_F(ObjectCancels, AShareBesideReadersAndAnotherShareEnds) {
  const auto one = place("one", "b"), two = place("two", "c"), three = place("three", "d");
  const std::vector<Place*> all = {one.get(), two.get(), three.get()};
  const auto mesh = mesh_of(*owner, all);
  for (int i = 0; i < 5; ++i) {
    std::optional owned(owner->objects.put(numbers(kLargeCount / 16)).get());
    auto sharing = owner->objects.share(owned->ref(), mesh);
    std::vector<actors::Future<Mapped<Numbers>>> reading;
    for (Place* each : all) reading.push_back(each->objects.get(owned->ref()));
    auto again = owner->objects.share(owned->ref(), mesh);
    for (auto& each : reading) EXPECT_EQ(content(each.get()), numbers(kLargeCount / 16));
    sharing.get();
    again.get();
    for (Place* each : all) EXPECT_EQ(each->status().copies, 1u);
    reading.clear();
    expect_freed(owned, {owner.get(), one.get(), two.get(), three.get()});
  }
}

TEST_F(ObjectCancels, AnObjectThatIsDroppedDuringAShareEndsEverywhere) {
  const auto one = place("one", "b"), two = place("two", "c");
  const auto mesh = mesh_of(*owner, {one.get(), two.get()});
  for (int i = 0; i < 10; ++i) {
    std::optional owned(owner->objects.put(numbers(kLargeCount / 16)).get());
    auto sharing = owner->objects.share(owned->ref(), mesh);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(i);
    while (std::chrono::steady_clock::now() < until) {
    }
    owned.reset();
    try {
      sharing.get();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    }
    expect_freed(owned, {owner.get(), one.get(), two.get()});
  }
}

TEST_F(ObjectCancels, ManyObjectsDroppedAtOnceAreFreed) {
  const auto reader = place("reader", "b"), near = place("near", "a");
  std::vector<OwnedObject<Numbers>> owned;
  std::vector<actors::Future<Mapped<Numbers>>> reading;
  for (std::uint32_t i = 0; i < 600; ++i) owned.push_back(owner->objects.put(numbers(10, i)).get());
  for (const auto& each : owned) {
    reading.push_back(reader->objects.get(each.ref()));
    reading.push_back(near->objects.get(each.ref()));
  }
  for (std::uint32_t i = 0; i < reading.size(); ++i)
    EXPECT_EQ(content(reading[i].get()), numbers(10, i / 2));
  EXPECT_EQ(reader->status().copies, 600u);
  reading.clear();
  owned.clear();
  for (Place* each : {owner.get(), reader.get(), near.get()}) {
    EXPECT_TRUE(eventually([&] { return each->status().copies == 0; }));
    EXPECT_TRUE(eventually([&] { return each->status().host_bytes == 0; }));
  }
  EXPECT_EQ(owner->status().objects, 0u);
}

TEST_F(ObjectCancels, ASourceThatFailsButLivesIsUsedAgain) {
  const auto reader = place("reader", "b");
  const auto kept = owner->objects.put(numbers(1000)).get();
  EXPECT_EQ(content(reader->get(kept.ref())), numbers(1000));
  // The owner refuses: there is no such object. Its connection must stay.
  ObjectDescription wrong = kept.ref().description();
  wrong.id.number = 77;
  EXPECT_EQ(error_of([&] { reader->get(ObjectRef<Numbers>(wrong)); }).code(), ErrorCode::kNotFound);
  const auto next = owner->objects.put(numbers(2000)).get();
  EXPECT_EQ(content(reader->get(next.ref())), numbers(2000));
}

TEST_F(ObjectCancels, ARequestThatEndsBeforeItsStartIsForgotten) {
  const auto bytes = std::make_shared<ObjectRequest>(ObjectDescription{});
  const auto local = LocalObjects::of(owner->system);
  const std::weak_ptr<ObjectRequest> watched = bytes;
  {
    auto request = bytes;
    local->put(request, std::chrono::nanoseconds(1));
  }
  EXPECT_TRUE(eventually([&] { return bytes->done(); }));
  EXPECT_TRUE(eventually([&] { return watched.use_count() == 1; }));
}

TEST_F(ObjectCancels, TheTypeIsComparedWithThatOfAMappingToo) {
  const auto near = place("near", "a");
  const auto owned = owner->objects.put(numbers(10)).get();
  const auto view = near->get(owned.ref());
  ObjectDescription wrong = owned.ref().description();
  wrong.type = object_fingerprint<std::vector<float>>();
  const ObjectRef<std::vector<float>> floats(wrong);
  EXPECT_EQ(error_of([&] { near->objects.get(floats).get(); }).code(), ErrorCode::kIncompatible);
}

}  // namespace
}  // namespace weft::mesh
