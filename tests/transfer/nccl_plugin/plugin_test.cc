// Tests the NCCL plugin without a GPU. Requires NCCL, so it is built only with CUDA.
#include <gtest/gtest.h>

#include <functional>

#include "core/base/error.h"
#include "core/cuda_support/cuda_support.h"
#include "core/cuda_support/open_gpu_plugin.h"
#include "tests/support/thrown_error.h"
#include "transfer/nccl/collectives_plugin.h"

namespace weft::transfer {
namespace {

std::unique_ptr<CollectivesPlugin> open() {
  return open_gpu_plugin<CollectivesPlugin>(plugin_search(plugin_places()));
}

TEST(NcclPlugin, SaysWhichLibraryItIs) {
  EXPECT_TRUE(open()->library().starts_with("NCCL 2.")) << open()->library();
}

TEST(NcclPlugin, IsOfTheSameSourcesAsTheProgram) {
  auto* const entry = reinterpret_cast<CollectivesPlugin* (*)(std::uint64_t)>(
      plugin_function(load_libraries_of(CollectivesPlugin::kFile, plugin_search(plugin_places())),
                      CollectivesPlugin::kEntry));
  EXPECT_EQ(entry(CollectivesPlugin::stamp() + 1), nullptr);
}

TEST(NcclPlugin, MakesIdsOfCommunicators) {
  const auto library = open()->make_collectives({});
  const auto first = library->make_id(), second = library->make_id();
  EXPECT_EQ(first.size(), 128u);
  EXPECT_NE(first, second);
}

TEST(NcclPlugin, WithoutAGpuNothingIsCreatedAndTheErrorCrossesTheLibrary) {
  const std::string missing = cuda_support(plugin_search(plugin_places())).unavailable_reason;
  if (missing.empty()) GTEST_SKIP() << "skipped: there is a GPU";
  const auto plugin = open();
  const auto library = plugin->make_collectives({});
  for (const auto& attempt : std::initializer_list<std::function<void()>>{
           [&] { plugin->processor(0); },
           [&] { library->create(std::vector<std::byte>(128), 1, 0, "alone"); }}) {
    EXPECT_THAT(attempt, test::throws_error(ErrorCode::kFailedPrecondition, "GPU 0"));
  }
  EXPECT_THAT([&] { library->create(std::vector<std::byte>(3), 1, 0, "wrong id"); },
              test::throws_error(ErrorCode::kInvalidArgument,
                                 "the id of the communicator 'wrong id' has 3 bytes"));
}

}  // namespace
}  // namespace weft::transfer
