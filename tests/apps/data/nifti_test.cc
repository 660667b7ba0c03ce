#include "apps/data/nifti.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <numeric>

#include "core/base/error.h"
#include "tests/support/nifti_bytes.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<std::int16_t> numbers() {
  std::vector<std::int16_t> voxels(24);
  std::iota(voxels.begin(), voxels.end(), std::int16_t{-3});
  return voxels;
}
std::vector<std::byte> sound() { return test::nifti_bytes<std::int16_t>({2, 3, 4}, 4, numbers()); }

TEST(Nifti, ReadsSizeSpacingAndVoxelsWithXRunningFastest) {
  const Volume volume = parse_nifti(sound(), "v");
  EXPECT_EQ(volume.size, (std::array<std::int64_t, 3>{2, 3, 4}));
  EXPECT_EQ(volume.spacing, (std::array<float, 3>{0.5f, 1.0f, 1.5f}));
  EXPECT_EQ(volume.at(0, 0, 0), -3);
  EXPECT_EQ(volume.at(1, 0, 0), -2);
  EXPECT_EQ(volume.at(1, 2, 3), 20);
}

TEST(Nifti, ScalesBySlopeAndInterceptAndReadsOtherTypes) {
  const std::vector<std::uint8_t> bytes{0, 200};
  EXPECT_EQ(parse_nifti(test::nifti_bytes<std::uint8_t>({2, 1, 1}, 2, bytes, 0.5f, 3), "v").voxels,
            (std::vector<float>{3, 103}));
  const std::vector<float> floats{0.25f, -7};
  EXPECT_EQ(parse_nifti(test::nifti_bytes<float>({1, 2, 1}, 16, floats), "v").voxels, floats);
}

TEST(Nifti, ReadsTheOtherByteOrder) {
  std::vector<std::byte> bytes = sound();
  const auto swap = [&](std::size_t offset, std::size_t size) {
    std::reverse(bytes.begin() + offset, bytes.begin() + (offset + size));
  };
  swap(0, 4);
  for (const std::size_t at : {40, 42, 44, 46, 70, 72}) swap(at, 2);
  for (const std::size_t at : {80, 84, 88, 108, 112, 116}) swap(at, 4);
  for (std::size_t at = 352; at < bytes.size(); at += 2) swap(at, 2);
  EXPECT_EQ(parse_nifti(bytes, "v").voxels, parse_nifti(sound(), "v").voxels);
}

TEST(Nifti, NamesTheProblemOfADamagedFile) {
  std::vector<std::byte> bytes = sound();
  EXPECT_THAT(test::error_message(ErrorCode::kDataLoss,
                                  [&] { parse_nifti(std::span(bytes).first(100), "v"); }),
              HasSubstr("v is not a NIfTI-1 file"));
  EXPECT_THAT(
      test::error_message(ErrorCode::kDataLoss,
                          [&] { parse_nifti(std::span(bytes).first(390), "v"); }),
      HasSubstr(
          "v is cut off: it has 390 bytes, but 2 x 3 x 4 voxels of 2 bytes from byte 352 on"));
  bytes[70] = std::byte{32};  // complex numbers
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument, [&] { parse_nifti(bytes, "v"); }),
              HasSubstr("data type 32"));
  bytes = sound();
  bytes[344] = std::byte{'x'};
  EXPECT_THAT(test::error_message(ErrorCode::kDataLoss, [&] { parse_nifti(bytes, "v"); }),
              HasSubstr("lacks the magic"));
  EXPECT_THAT(test::error_message(ErrorCode::kNotFound, [&] { read_nifti("/nowhere.nii.gz"); }),
              HasSubstr("/nowhere.nii.gz"));
}

TEST(Nifti, ReadsFilesCompressedOrNotAndRefusesCutOffOnes) {
  const test::ScratchFolder folder;
  const std::vector<std::byte> bytes = sound();
  const fs::path plain = folder.path() / "v.nii", packed = folder.path() / "v.nii.gz";
  std::ofstream(plain, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  gzFile file = gzopen(packed.c_str(), "wb");
  gzwrite(file, bytes.data(), bytes.size());
  gzclose(file);
  EXPECT_EQ(read_nifti(plain).voxels, read_nifti(packed).voxels);
  fs::resize_file(packed, fs::file_size(packed) - 10);
  EXPECT_THAT(test::error_message(ErrorCode::kDataLoss, [&] { read_nifti(packed); }),
              HasSubstr("cut off"));
}

}  // namespace
}  // namespace weft::apps
