// Objects of a process that hang on its system, and their view of lost peers.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>

#include "actors/system/system.h"
#include "tests/support/eventually.h"
#include "tests/support/system_options.h"

namespace weft::actors {
namespace {

TEST(Attachments, EachTypeHasOneObjectPerSystem) {
  auto system = std::make_optional<System>(test::system_options("one"));
  System other(test::system_options("two"));
  const auto make = [](int number) { return [number] { return std::make_shared<int>(number); }; };
  const std::shared_ptr<int> first = system->attachment<int>(make(1));
  EXPECT_EQ(system->attachment<int>(make(2)), first);
  EXPECT_EQ(*other.attachment<int>(make(3)), 3);
  EXPECT_EQ(*system->attachment<double>([] { return std::make_shared<double>(0.5); }), 0.5);
  EXPECT_GT(first.use_count(), 1);
  system.reset();
  EXPECT_EQ(first.use_count(), 1);
}

TEST(Attachments, SeveralWatchersSeeALostPeer) {
  System system(test::system_options("one"));
  std::atomic<int> seen{0};
  for (int i = 0; i < 2; ++i)
    system.watch_lost_peers([&seen](const ProcessRef& process, const Error&) {
      if (process.name == "two") ++seen;
    });
  {
    System other(test::system_options("two"));
    system.connect(other.listen({"127.0.0.1", 0}));
    EXPECT_EQ(seen, 0);
  }
  EXPECT_TRUE(test::eventually([&] { return seen == 2; }));
}

}  // namespace
}  // namespace weft::actors
