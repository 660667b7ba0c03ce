// Objects between systems of one process, over real sockets and UCX.
#include "mesh/objects/objects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/mesh/objects/object_world.h"

namespace weft::mesh {
namespace {

using test::error_of;
using test::eventually;

struct Settings {
  std::map<std::string, double> values;
  std::vector<std::string> names;
  static constexpr auto fields = weft::fields(&Settings::values, &Settings::names);
};

class MeshObjects : public testing::Test {
 protected:
  Place& place(const std::string& name, const std::string& host) {
    places.push_back(std::make_unique<Place>(name, host, Limits{limit, folder.path()}));
    return *places.back();
  }
  test::ScratchFolder folder;
  std::uint64_t limit = std::uint64_t{1} << 30;
  std::vector<std::unique_ptr<Place>> places;
};

TEST_F(MeshObjects, AProcessReadsWhatItHasPut) {
  Place& one = place("one", "a");
  const auto list = one.objects.put(numbers(100'000)).get();
  EXPECT_EQ(list.bytes(), 400'000u);
  EXPECT_EQ(content(one.get(list.ref())), numbers(100'000));
  const auto text = one.objects.put(std::string("weft")).get();
  const auto read = one.objects.get(text.ref()).get();
  EXPECT_EQ(std::string(read.span().begin(), read.span().end()), "weft");
  const auto none = one.objects.put(Numbers()).get();
  EXPECT_TRUE(one.get(none.ref()).span().empty());
  const auto point = one.objects.put(std::array<double, 2>{1.5, 2.5}).get();
  EXPECT_EQ(one.objects.get(point.ref()).get().span()[1], 2.5);
  const auto settings = one.objects.put(Settings{{{"rate", 0.5}}, {"a", "b"}}).get();
  const auto decoded = one.objects.get(settings.ref()).get();
  EXPECT_EQ(decoded.value().values.at("rate"), 0.5);
  EXPECT_EQ(decoded.value().names.size(), 2u);
  EXPECT_EQ(one.status().objects, 5u);
}

TEST_F(MeshObjects, AReaderOfTheSameHostMapsTheOnlyCopy) {
  Place& one = place("one", "a");
  Place& two = place("two", "a");
  const auto owned = one.objects.put(numbers(300'000)).get();
  const auto view = two.get(owned.ref());
  EXPECT_EQ(content(view), numbers(300'000));
  EXPECT_EQ(content(two.get(owned.ref())), numbers(300'000));
  EXPECT_EQ(two.status().copies, 0u);
  EXPECT_EQ(two.status().bytes_received, 0u);
  EXPECT_EQ(two.status().host_bytes, 1'200'000u);
}

TEST_F(MeshObjects, EachHostReceivesAnObjectOnce) {
  constexpr std::size_t kCount = 3'000'001;
  Place& owner = place("owner", "a");
  std::vector<Place*> readers;
  for (const char* host : {"b", "c", "d", "e"})
    for (int i = 0; i < 3; ++i) readers.push_back(&place(fmt::format("{}{}", host, i), host));
  const auto owned = owner.objects.put(numbers(kCount)).get();
  std::vector<actors::Future<Mapped<Numbers>>> reading;
  for (Place* reader : readers) reading.push_back(reader->objects.get(owned.ref()));
  const Numbers expected = numbers(kCount);
  std::vector<Mapped<Numbers>> views;
  for (auto& each : reading) {
    views.push_back(each.get());
    EXPECT_TRUE(std::ranges::equal(views.back().span(), expected));
  }
  std::map<std::string, std::uint64_t> received;
  std::map<std::string, std::uint64_t> copies;
  for (Place* reader : readers) {
    const StoreStatus status = reader->status();
    received[status.host] += status.bytes_received;
    copies[status.host] += status.copies;
  }
  for (const char* host : {"b", "c", "d", "e"}) {
    EXPECT_EQ(received[host], kCount * 4) << host;
    EXPECT_EQ(copies[host], 1u) << host;
  }
}

TEST_F(MeshObjects, ADroppedObjectIsFreedOnAllHostsOnceItsReadersAreDone) {
  Place& one = place("one", "a");
  Place& two = place("two", "a");
  Place& three = place("three", "b");
  std::optional<OwnedObject<Numbers>> owned = one.objects.put(numbers(100'000)).get();
  const auto ref = owned->ref();
  std::optional<Mapped<Numbers>> near = two.get(ref);
  std::optional<Mapped<Numbers>> far = three.get(ref);
  owned.reset();
  EXPECT_TRUE(eventually([&] { return one.status().objects == 0; }));
  const Error error = error_of([&] { place("four", "c").get(ref); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_EQ(error.message(),
            "object 1 of one does not exist any more: its owner has dropped it; keep its "
            "OwnedObject until all readers have it");
  // The views stay, and so does the memory.
  EXPECT_EQ(content(*near), numbers(100'000));
  EXPECT_EQ(content(*far), numbers(100'000));
  EXPECT_EQ(one.status().host_bytes, 400'000u);
  near.reset();
  far.reset();
  EXPECT_TRUE(eventually([&] { return one.status().host_bytes == 0; }));
  EXPECT_TRUE(eventually([&] { return three.status().host_bytes == 0; }));
  EXPECT_EQ(three.status().copies, 0u);
}

TEST_F(MeshObjects, AnObjectWhoseFutureIsDroppedIsFreed) {
  Place& one = place("one", "a");
  { const auto ignored = one.objects.put(numbers(1000)); }
  EXPECT_TRUE(eventually([&] { return one.status().host_bytes == 0; }));
}

TEST_F(MeshObjects, ObjectsBeyondTheLimitGoToDiskAndComeBack) {
  limit = 3 << 20;
  Place& one = place("one", "a");
  Place& two = place("two", "a");
  constexpr std::size_t kCount = 1 << 18;  // 1 MiB
  std::vector<OwnedObject<Numbers>> owned;
  for (std::uint32_t i = 0; i < 8; ++i) owned.push_back(one.objects.put(numbers(kCount, i)).get());
  StoreStatus status = one.status();
  EXPECT_EQ(status.bytes_on_disk, 5u << 20);
  EXPECT_EQ(status.bytes_in_memory, 3u << 20);
  EXPECT_LE(status.host_bytes, limit);
  for (int round = 0; round < 2; ++round)
    for (std::uint32_t i = 0; i < 8; ++i) {
      EXPECT_EQ(content(two.get(owned[i].ref())), numbers(kCount, i));
      EXPECT_EQ(content(one.get(owned[i].ref())), numbers(kCount, i));
    }
  EXPECT_LE(one.status().host_bytes, limit);
  owned.clear();
  EXPECT_TRUE(eventually([&] { return one.status().copies == 0; }));
  EXPECT_TRUE(eventually([&] { return one.status().host_bytes == 0; }, std::chrono::seconds(5)));
}

TEST_F(MeshObjects, MappedObjectsStayInMemoryAndTheErrorHasTheNumbers) {
  limit = 3 << 20;
  Place& one = place("one", "a");
  Place& two = place("two", "a");
  constexpr std::size_t kCount = 1 << 18;
  std::vector<OwnedObject<Numbers>> owned;
  std::vector<Mapped<Numbers>> views;
  for (std::uint32_t i = 0; i < 3; ++i) {
    owned.push_back(one.objects.put(numbers(kCount, i)).get());
    views.push_back((i == 0 ? one : two).get(owned.back().ref()));
  }
  // A further object goes straight to disk, and cannot be read before a view has gone.
  owned.push_back(one.objects.put(numbers(kCount, 3)).get());
  EXPECT_EQ(one.status().bytes_on_disk, 1u << 20);
  const Error error = error_of([&] { one.get(owned[3].ref()); });
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(error.message(),
            "object 4 of one takes 1 MiB, and the objects of a host may take 3 MiB of memory "
            "(cluster.objects), of which 3 MiB are in use, 3 MiB of them by one; destroy Mapped "
            "views and OwnedObjects, or raise cluster.objects");
  views.pop_back();
  EXPECT_TRUE(eventually([&] {
    try {
      return content(one.get(owned[3].ref())) == numbers(kCount, 3);
    } catch (const Error&) {
      return false;
    }
  }));
  EXPECT_EQ(content(views[0]), numbers(kCount, 0));
  EXPECT_EQ(content(views[1]), numbers(kCount, 1));
  const Error larger = error_of([&] { one.objects.put(numbers(4 * kCount)).get(); });
  EXPECT_EQ(larger.code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(
      larger.message(),
      "object 5 of one takes 4 MiB, and could not be read: all objects of the host of one may "
      "take 3 MiB of memory (cluster.objects); raise cluster.objects, or put it in parts");
}

TEST_F(MeshObjects, CopiesOfOtherProcessesObjectsEndBeforeAnObjectGoesToDisk) {
  limit = 3 << 20;
  Place& owner = place("owner", "a");
  Place& one = place("one", "b");
  Place& two = place("two", "b");
  constexpr std::size_t kCount = 1 << 18;  // 1 MiB
  std::vector<OwnedObject<Numbers>> others, own;
  for (std::uint32_t i = 0; i < 2; ++i) {
    others.push_back(owner.objects.put(numbers(kCount, i)).get());
    EXPECT_EQ(content(one.get(others[i].ref())), numbers(kCount, i));
  }
  for (std::uint32_t i = 0; i < 2; ++i) own.push_back(one.objects.put(numbers(kCount, 9)).get());
  EXPECT_EQ(one.status().copies, 3u);  // the older copy has ended
  EXPECT_EQ(one.status().bytes_on_disk, 0u);
  // The ended copy comes back in place of the other one, which the owner forgets.
  std::optional view = one.get(others[0].ref());
  EXPECT_EQ(content(*view), numbers(kCount, 0));
  EXPECT_EQ(one.status().bytes_received, 3u << 20);
  EXPECT_EQ(one.status().bytes_on_disk, 0u);
  // A copy with a reader stays.
  own.push_back(one.objects.put(numbers(kCount, 9)).get());
  EXPECT_EQ(one.status().bytes_on_disk, 1u << 20);
  EXPECT_EQ(content(*view), numbers(kCount, 0));
  view.reset();
  own.clear();
  EXPECT_EQ(content(two.get(others[1].ref())), numbers(kCount, 1));
  others.clear();
  for (Place* each : {&owner, &one, &two}) {
    EXPECT_TRUE(eventually([&] { return each->status().copies == 0; }));
    EXPECT_TRUE(eventually([&] { return each->status().host_bytes == 0; }));
  }
}

TEST_F(MeshObjects, AFullDiskIsNamed) {
  limit = 1 << 20;
  Place& one = place("one", "a");
  const auto first = one.objects.put(numbers(1 << 18)).get();
  const auto view = one.get(first.ref());
  // A file in place of the folder stands for the full disk.
  std::filesystem::remove_all(folder.path());
  std::ofstream(folder.path()) << "no folder";
  const Error error = error_of([&] { one.objects.put(numbers(1 << 18)).get(); });
  EXPECT_THAT(error.message(), testing::HasSubstr("; the disk has no room either: "));
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
}

TEST_F(MeshObjects, AnotherTypeIsRefused) {
  Place& one = place("one", "a");
  Place& two = place("two", "a");
  const auto owned = one.objects.put(numbers(10)).get();
  ObjectDescription wrong = owned.ref().description();
  wrong.type = object_fingerprint<std::vector<float>>();
  const ObjectRef<std::vector<float>> floats(wrong);
  for (Place* reader : {&one, &two})
    EXPECT_EQ(error_of([&] { reader->objects.get(floats).get(); }).code(),
              ErrorCode::kIncompatible);
  // A reference says its type when it travels.
  const auto bytes = encode(owned.ref());
  EXPECT_EQ(decode<ObjectRef<Numbers>>(bytes), owned.ref());
  EXPECT_EQ(error_of([&] { decode<ObjectRef<std::vector<float>>>(bytes); }).code(),
            ErrorCode::kIncompatible);
  EXPECT_EQ(error_of([&] { one.objects.get(ObjectRef<Numbers>()).get(); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST_F(MeshObjects, ObjectsEndWithTheirOwner) {
  Place& reader = place("reader", "b");
  Place& late = place("late", "c");
  places.push_back(std::make_unique<Place>("owner", "a", Limits{limit, folder.path()}));
  const auto owned = places.back()->objects.put(numbers(100'000)).get();
  const auto ref = owned.ref();
  auto view = std::make_optional(reader.get(ref));
  EXPECT_EQ(reader.status().copies, 1u);
  places.pop_back();
  EXPECT_EQ(content(*view), numbers(100'000));
  view.reset();
  EXPECT_TRUE(eventually([&] { return reader.status().host_bytes == 0; }));
  EXPECT_FALSE(error_of([&] { late.get(ref); }).message().empty());
}

TEST_F(MeshObjects, ASecondCopySurvivesTheOwner) {
  Place& backup = place("backup", "b");
  Place& same_host = place("same_host", "a");
  Place& late = place("late", "c");
  places.push_back(std::make_unique<Place>("owner", "a", Limits{limit, folder.path()}));
  Place& owner = *places.back();
  EXPECT_EQ(error_of([&] { owner.objects.put(numbers(10), {.copies = 2}).get(); }).code(),
            ErrorCode::kUnavailable);
  for (Place* other : {&same_host, &backup}) other->system.connect(owner.address);
  const auto owned = owner.objects.put(numbers(100'000), {.copies = 2}).get();
  EXPECT_EQ(owned.ref().description().backup.name, "backup");
  EXPECT_EQ(error_of([&] { late.objects.discard(owned.ref()).get(); }).code(),
            ErrorCode::kFailedPrecondition);
  places.pop_back();
  EXPECT_EQ(content(late.get(owned.ref())), numbers(100'000));
  EXPECT_EQ(content(same_host.get(owned.ref())), numbers(100'000));
  EXPECT_EQ(content(backup.get(owned.ref())), numbers(100'000));
  late.objects.discard(owned.ref()).get();
  for (Place* each : {&backup, &same_host, &late})
    EXPECT_TRUE(eventually([&] { return each->status().copies == 0; }));
  EXPECT_EQ(error_of([&] { late.objects.discard(owned.ref()).get(); }).code(),
            ErrorCode::kNotFound);
}

TEST_F(MeshObjects, APullContinuesWhenItsSourceEnds) {
  constexpr std::size_t kCount = 32 << 20;  // 128 MiB
  Place& owner = place("owner", "a");
  Place& last = place("last", "c");
  auto middle = std::make_unique<Place>("middle", "b", Limits{limit, folder.path()});
  const auto owned = owner.objects.put(numbers(kCount)).get();
  auto first = middle->objects.get(owned.ref());
  EXPECT_TRUE(eventually([&] { return middle->status().bytes_received > 0; }));
  auto second = last.objects.get(owned.ref());
  EXPECT_TRUE(eventually([&] { return last.status().bytes_received > 0; }));
  middle.reset();
  const auto view = second.get();
  EXPECT_TRUE(std::ranges::equal(view.span(), numbers(kCount)));
  EXPECT_EQ(last.status().bytes_received, kCount * 4);  // nothing twice
  EXPECT_TRUE(first.ready());
}

}  // namespace
}  // namespace weft::mesh
