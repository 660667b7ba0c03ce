// Tests the search for CUDA and the messages when it is missing. The plugin and the NVIDIA library
// that it needs are fakes.
#include "core/cuda_support/cuda_support.h"

#include <gmock/gmock.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "core/base/error.h"
#include "core/cuda_support/file_of_function.h"
#include "core/cuda_support/internal/needed_libraries.h"
#include "core/cuda_support/open_gpu_plugin.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::AllOf, testing::Contains, testing::ElementsAre, testing::HasSubstr, testing::IsEmpty;

const fs::path kFakes = WEFT_FAKE_PLUGINS;

PluginEnvironment places(const fs::path& root,
                         const std::map<std::string, std::string>& variables) {
  return {root / "bundle/bin/weft", root,
          [variables](const char* name) -> std::optional<std::string> {
            const auto found = variables.find(name);
            if (found == variables.end()) return std::nullopt;
            return found->second;
          }};
}

TEST(PluginSearch, NamesFoldersInOrderAndOnlyUsualOnesThatExist) {
  const test::ScratchFolder scratch;
  const fs::path root = scratch.path();
  for (const char* folder :
       {"usr/local/cuda/lib64", "venv/bin", "venv/lib/python3.12/site-packages/nvidia/cudnn/lib",
        "venv/lib/python3.12/site-packages/nvidia/cu13/lib",
        "venv/lib/python3.12/site-packages/nvidia/cu13/include",
        "usr/lib/python3/dist-packages/nvidia/nccl/lib",
        "other/lib/python3.11/site-packages/nvidia/nccl/lib"}) {
    fs::create_directories(root / folder);
  }
  std::ofstream(root / "venv/bin/python3") << "";
  const PluginSearch search =
      plugin_search(places(root, {{"PATH", "/nowhere:" + (root / "venv/bin").string()},
                                  {"VIRTUAL_ENV", (root / "other").string()},
                                  {"CUDA_HOME", (root / "absent").string()},
                                  {"WEFT_PLUGINS", "/mine"},
                                  {"WEFT_CUDA_LIBRARIES", "/a::/b"}}));
  EXPECT_THAT(search.plugins, ElementsAre("/mine", root / "bundle/lib"));
  EXPECT_THAT(search.configured_library_folders, ElementsAre("/a", "/b"));
  EXPECT_THAT(search.default_library_folders,
              ElementsAre(root / "usr/local/cuda/lib64",
                          root / "other/lib/python3.11/site-packages/nvidia/nccl/lib",
                          root / "venv/lib/python3.12/site-packages/nvidia/cu13/lib",
                          root / "venv/lib/python3.12/site-packages/nvidia/cudnn/lib",
                          root / "usr/lib/python3/dist-packages/nvidia/nccl/lib"));
}

TEST(PluginSearch, OfABareMachineNamesNothing) {
  const test::ScratchFolder scratch;
  const PluginSearch search = plugin_search(places(scratch.path(), {}));
  EXPECT_THAT(search.plugins, ElementsAre(scratch.path() / "bundle/lib"));
  EXPECT_THAT(search.configured_library_folders, IsEmpty());
  EXPECT_THAT(search.default_library_folders, IsEmpty());
}

TEST(PluginSearch, TakesModesOfTheGpuFromTheEnvironment) {
  const test::ScratchFolder scratch;
  const auto with = [&](const std::map<std::string, std::string>& variables) {
    return plugin_search(places(scratch.path(), variables));
  };
  EXPECT_TRUE(with({}).graphs);
  EXPECT_TRUE(with({{"WEFT_CUDA_GRAPHS", "1"}}).graphs);
  EXPECT_FALSE(with({{"WEFT_CUDA_GRAPHS", "0"}}).graphs);
  EXPECT_TRUE(with({}).measure_products);
  EXPECT_FALSE(with({{"WEFT_CUDA_MEASURE", "0"}}).measure_products);
  EXPECT_FALSE(with({}).check_every_op);
  EXPECT_FALSE(with({{"WEFT_CUDA_CHECK", "0"}}).check_every_op);
  EXPECT_TRUE(with({{"WEFT_CUDA_CHECK", "1"}}).check_every_op);
}

TEST(CudaSupport, WithoutAPluginSaysThatThisWeftWasBuiltWithoutCuda) {
  const CudaSupport support = cuda_support({{"/nowhere/lib"}, {}, {}});
  EXPECT_THAT(support.gpus, IsEmpty());
  EXPECT_THAT(support.unavailable_reason,
              AllOf(HasSubstr("built without CUDA: there is no libweft_cuda.so in /nowhere/lib"),
                    HasSubstr("WEFT_PLUGINS")));
  EXPECT_EQ(test::error_message(ErrorCode::kFailedPrecondition,
                                [] {
                                  make_cuda_device({}, {{"/nowhere/lib"}, {}, {}});
                                }),
            support.unavailable_reason);
}

// A single test, since an opened library stays loaded until the process ends.
TEST(CudaSupport, NamesTheLibraryThatIsMissingUntilItIsFound) {
  const test::ScratchFolder scratch;
  const PluginSearch nowhere{{kFakes / "lib"}, {}, {}};
  EXPECT_THAT(cuda_support(nowhere).unavailable_reason,
              AllOf(HasSubstr("libnccl.so.99 was not found: WEFT_CUDA_LIBRARIES is not set, the "
                              "dynamic loader does not know it"),
                    HasSubstr("`pip install nvidia-nccl-cu13`"),
                    HasSubstr("or set WEFT_CUDA_LIBRARIES to the folder that has it")));
  const PluginSearch wrong{
      {kFakes / "lib"}, {"/empty"}, {"/usr/local/cuda/lib64", "/venv/nvidia/nccl/lib"}};
  EXPECT_THAT(
      cuda_support(wrong).unavailable_reason,
      HasSubstr(
          "not in WEFT_CUDA_LIBRARIES (/empty), the dynamic loader does not know it, and it is not "
          "in /usr/local/cuda/lib64, /venv/nvidia/nccl/lib"));

  std::ofstream(scratch.path() / "libnccl.so.99") << "no library";
  const PluginSearch damaged{{kFakes / "lib"}, {scratch.path()}, {}};
  EXPECT_THAT(cuda_support(damaged).unavailable_reason,
              HasSubstr("libnccl.so.99 cannot be opened: "));

  const PluginSearch right{
      {"/nowhere", kFakes / "lib"}, {scratch.path()}, {"/nowhere", kFakes / "nvidia"}};
  const CudaSupport support = cuda_support(right);
  EXPECT_EQ(support.unavailable_reason, "");
  EXPECT_THAT(support.gpus, ElementsAre("fake 0", "fake 1"));
  EXPECT_EQ(support.runtime, "99");
  EXPECT_EQ(test::error_message(ErrorCode::kFailedPrecondition,
                                [&] { make_cuda_device({.gpu = 2}, right); }),
            "there is no GPU 2: this process sees 2");
  EXPECT_THAT(test::error_message(ErrorCode::kFailedPrecondition,
                                  [&] {
                                    plugin_function(load_libraries_of(CudaPlugin::kFile, right),
                                                    "weft_other_plugin");
                                  }),
              HasSubstr("lacks the function weft_other_plugin"));

  // The plugin contains its own copy of class Error.
  EXPECT_EQ(test::error_of([&] { make_cuda_device({.gpu = 1}, right); }),
            Error(ErrorCode::kResourceExhausted, "GPU 1 is taken").at("a plugin"));
}

TEST(CudaSupport, OfThisMachineHasGpusOrSaysWhyNot) {
  const CudaSupport support = cuda_support(plugin_search(plugin_places()));
  EXPECT_EQ(support.gpus.empty(), !support.unavailable_reason.empty());
  std::cout << (support.unavailable_reason.empty() ? support.gpus.front()
                                                   : support.unavailable_reason)
            << "\n";
  // The libraries are told also without a GPU: they decide what a machine can run.
  for (const LoadedLibrary& library : support.libraries) {
    EXPECT_THAT(library.version, testing::MatchesRegex("[0-9]+\\.[0-9.]+")) << library.name;
    EXPECT_TRUE(fs::is_regular_file(library.file)) << library.name << ": " << library.file;
  }
}

TEST(FileOfFunction, IsTheLibraryThatHasIt) {
  // A function that no sanitizer replaces with its own.
  EXPECT_THAT(file_of_function(&gnu_get_libc_version), HasSubstr("libc.so"));
  EXPECT_EQ(file_of_function(static_cast<const void*>(nullptr)), "");
}

TEST(NeededLibraries, AreReadFromTheFile) {
  EXPECT_THAT(needed_libraries(kFakes / "lib/libweft_cuda.so"),
              AllOf(Contains("libnccl.so.99"), Contains("libc.so.6")));
  EXPECT_THAT([&] { needed_libraries("/nowhere"); },
              test::throws_error(ErrorCode::kNotFound, "/nowhere cannot be read"));
}

TEST(NeededLibraries, OfADamagedFileAreRefusedOrFewer) {
  std::ifstream file(kFakes / "nvidia/libnccl.so.99", std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(file), {});
  const test::ScratchFolder scratch;
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 8) {
    std::ofstream(scratch.path() / "cut", std::ios::binary) << whole.substr(0, size);
    try {
      needed_libraries(scratch.path() / "cut");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIncompatible);
    }
  }
}

}  // namespace
}  // namespace weft
