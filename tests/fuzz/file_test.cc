#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "apps/classification/idx_file.h"
#include "apps/data/nifti.h"
#include "apps/data/png_reader.h"
#include "apps/data/token_file.h"
#include "apps/run_files/checkpoint.h"
#include "apps/run_files/safetensors.h"
#include "core/base/error.h"
#include "tests/fuzz/allocation_limit.h"
#include "tests/fuzz/mutator.h"
#include "tests/support/image_files.h"
#include "tests/support/nifti_bytes.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;

std::vector<std::byte> content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<std::byte> bytes(fs::file_size(path));
  in.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
  return bytes;
}

void replace(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

class FileFuzz : public ::testing::Test {
 protected:
  /// Reads `rounds` copies of the file at `path`, damaged in their first `front` bytes, which
  /// describe the rest. Each copy is refused with kDataLoss (kIncompatible if it announces another
  /// format) or read within its bounds.
  template <typename Read>
  void survives_damage(const fs::path& path, int rounds, std::size_t front, Read read) {
    const std::vector<std::byte> sound = content(path);
    test::Mutator mutator(7);
    int refused = 0;
    for (int round = 0; round < rounds; ++round) {
      SCOPED_TRACE(round);
      auto damaged = mutator.damage(std::span(sound).first(std::min(front, sound.size())));
      const auto rest = std::span(sound).subspan(std::min(front, sound.size()));
      damaged.insert(damaged.end(), rest.begin(), rest.end());
      replace(path, damaged);
      const test::AllocationLimit limit(256 * damaged.size() + (2 << 20));
      try {
        read();
      } catch (const Error& error) {
        ASSERT_TRUE(error.code() == ErrorCode::kDataLoss ||
                    error.code() == ErrorCode::kIncompatible)
            << error.what();
        ++refused;
      }
    }
    EXPECT_GT(refused, rounds / 10);
  }

  const test::ScratchFolder scratch_;
  const fs::path& folder_ = scratch_.path();
};

TEST_F(FileFuzz, ADamagedSafetensorsFileIsRefusedOrReadWithinItsBounds) {
  const fs::path path = folder_ / "model.safetensors";
  const std::vector<float> values(60, 1.5f);
  const std::vector<TensorView> tensors = {{"wte", {10, 2}, std::span(values).first(20)},
                                           {"bias", {}, std::span(values).first(1)},
                                           {"w", {3, 13}, std::span(values).last(39)}};
  write_safetensors(path, tensors, {{"step", "7"}});
  float sum = 0;
  survives_damage(path, 1'000, 300, [&] {
    const SafetensorsFile file(path);
    for (const TensorView& tensor : file.tensors())
      for (const float value : tensor.values) sum += value;
  });
  EXPECT_NE(sum, 0);
}

TEST_F(FileFuzz, ADamagedCheckpointIsNeverTakenForASoundOne) {
  const std::vector<float> values(6, 0.25f);
  Checkpoint sound;
  sound.step = 3;
  sound.seed = 5;
  sound.model_digest = "d";
  sound.parameters = {{"wte", {2, 3}, values, values, values}};
  const fs::path checkpoint = CheckpointStore(folder_, 1).write(sound);
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const auto before = content(checkpoint / name);
    survives_damage(checkpoint / name, 300, 400,
                    [&] { ASSERT_EQ(read_checkpoint(checkpoint), sound); });
    replace(checkpoint / name, before);
  }
  survives_damage(checkpoint / "checkpoint.json", 1'000, 1 << 20,
                  [&] { read_checkpoint(checkpoint); });
}

TEST_F(FileFuzz, ADamagedTokenFileIsRefusedOrReadWithinItsBounds) {
  const fs::path path = folder_ / "tokens";
  std::vector<std::int32_t> ids(100);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i % 50;
  TokenFile::write(path, ids, 50);
  survives_damage(path, 1'000, 96, [&] {
    const TokenFile file(path);
    std::vector<std::int32_t> read(file.size());
    file.read(0, read);
    file.verify();
    ASSERT_EQ(read, ids);
  });
}

/// Reads copies of `sound` that are damaged in their first `front` bytes. Each is refused, or read
/// within its bounds.
template <typename Read>
void parts_survive_damage(const std::vector<std::byte>& sound, std::size_t front, Read read) {
  test::Mutator mutator(7);
  int refused = 0;
  for (int round = 0; round < 2'000; ++round) {
    SCOPED_TRACE(round);
    auto damaged = mutator.damage(std::span(sound).first(front));
    damaged.insert(damaged.end(), sound.begin() + front, sound.end());
    const test::AllocationLimit limit(256 * damaged.size() + (2 << 20));
    try {
      read(damaged);
    } catch (const Error& error) {
      ASSERT_TRUE(error.code() == ErrorCode::kDataLoss ||
                  error.code() == ErrorCode::kInvalidArgument)
          << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

TEST_F(FileFuzz, ADamagedVolumeIsRefusedOrReadWithinItsBounds) {
  const std::vector<std::uint8_t> voxels(60, 7);
  parts_survive_damage(test::nifti_bytes<std::uint8_t>({3, 4, 5}, 2, voxels), 352,
                       [](const std::vector<std::byte>& damaged) {
                         EXPECT_FALSE(parse_nifti(damaged, "volume").voxels.empty());
                       });
}

TEST_F(FileFuzz, ADamagedIdxFileIsRefusedOrReadWithinItsBounds) {
  parts_survive_damage(test::idx_bytes({2, 3, 4}, std::vector<std::uint8_t>(24, 9)), 20,
                       [](const std::vector<std::byte>& damaged) {
                         EXPECT_LT(parse_idx(damaged, "images").values.size(), damaged.size());
                       });
}

TEST_F(FileFuzz, ADamagedPictureIsRefusedOrReadWithinItsBounds) {
  const std::string png = to_png(Picture(6, 5, {1, 2, 3}));
  const auto bytes = std::as_bytes(std::span(png));
  // content of the header and of all pixels; the checksums are corrected below
  std::vector<std::byte> contents(bytes.begin() + 16, bytes.begin() + 29);
  contents.insert(contents.end(), bytes.begin() + 41, bytes.end() - 16);
  parts_survive_damage(contents, contents.size(), [&](const std::vector<std::byte>& damaged) {
    std::string file = png.substr(0, 8);
    const auto chunk = [&](const std::string& kind, std::span<const std::byte> content) {
      const std::string body =
          kind + std::string(reinterpret_cast<const char*>(content.data()), content.size());
      const auto number = [&](std::uint32_t value) {
        for (const int shift : {24, 16, 8, 0}) file += static_cast<char>(value >> shift);
      };
      number(content.size());
      file += body;
      number(crc32(0, reinterpret_cast<const Bytef*>(body.data()), body.size()));
    };
    const std::size_t header = std::min<std::size_t>(13, damaged.size());
    chunk("IHDR", std::span(damaged).first(header));
    chunk("IDAT", std::span(damaged).subspan(header));
    chunk("IEND", {});
    EXPECT_GT(parse_png(std::as_bytes(std::span(file)), "picture").width(), 0);
  });
}

TEST_F(FileFuzz, ExtentsWhoseProductOverflowsAreNoTensor) {
  const fs::path path = folder_ / "huge.safetensors";
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}      )";
  const std::uint64_t size = header.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof size);
  out << header;
  out.close();
  EXPECT_THAT([&] { SafetensorsFile{path}; },
              test::throws_error(ErrorCode::kDataLoss, "tensor w has impossible offsets"));
}

}  // namespace
}  // namespace weft::apps
