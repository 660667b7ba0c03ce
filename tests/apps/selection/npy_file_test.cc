#include "apps/selection/npy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "apps/selection/npy_writer.h"
#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

class NpyFileTest : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / "vectors.npy"; }

  /// Writes a file as numpy.save does: spaces pad the header to a multiple of 64 bytes.
  template <typename T>
  void write(const std::string& header, const std::vector<T>& values, char version = 1) const {
    const std::size_t begin = version == 1 ? 10 : 12;
    std::string text = header;
    while ((begin + text.size() + 1) % 64 != 0) text += ' ';
    text += '\n';
    std::ofstream stream(file(), std::ios::binary);
    stream << "\x93NUMPY" << version << '\0';
    stream << static_cast<char>(text.size() & 0xff) << static_cast<char>(text.size() >> 8);
    if (version > 1) stream << '\0' << '\0';
    stream << text;
    stream.write(reinterpret_cast<const char*>(values.data()),
                 static_cast<std::streamsize>(values.size() * sizeof(T)));
  }
  void refused(ErrorCode code, const std::string& why) const {
    const Error error = test::error_of([&] { const NpyFile npy(file()); });
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(error.message(), HasSubstr(why));
    EXPECT_THAT(error.message(), HasSubstr("vectors.npy"));
  }

  const test::ScratchFolder scratch_;
  const std::filesystem::path& folder_ = scratch_.path();
};

TEST_F(NpyFileTest, ReadsFilesOfNumpy) {
  write<float>("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", {1, 2, 3, 4, 5, 6});
  const NpyFile floats(file());
  EXPECT_EQ(floats.rows(), 3U);
  EXPECT_EQ(floats.columns(), 2U);
  std::vector<float> two(4);
  floats.read(1, two);
  EXPECT_EQ(two, (std::vector<float>{3, 4, 5, 6}));

  write<double>("{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }", {0.5, -1, 2, 1e300},
                2);
  const NpyFile doubles(file());
  EXPECT_EQ(doubles.rows(), 4U);
  EXPECT_EQ(doubles.columns(), 1U);
  std::vector<float> three(3);
  doubles.read(0, three);
  EXPECT_EQ(three, (std::vector<float>{0.5, -1, 2}));

  write<std::uint16_t>("{'descr': '<f2', 'fortran_order': False, 'shape': (1, 4), }",
                       {0x3c00, 0xc000, 0x3555, 0x0001}, 3);
  const NpyFile halves(file());
  std::vector<float> four(4);
  halves.read(0, four);
  EXPECT_EQ(four[0], 1);
  EXPECT_EQ(four[1], -2);
  EXPECT_NEAR(four[2], 1.0 / 3, 1e-4);
  EXPECT_EQ(four[3], 0x1p-24F);
}

TEST_F(NpyFileTest, ReadsFilesWrittenInBlocks) {
  const std::vector<float> values = {1, -2, 3, 4, 5, 6};
  {
    NpyWriter vectors(file(), 3);
    vectors.append(std::span(values).first(3));
    EXPECT_FALSE(std::filesystem::exists(file()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));

  NpyWriter vectors(file(), 2);
  vectors.append(std::span(values).first(4));
  vectors.append(std::span(values).subspan(4));
  vectors.commit();
  const NpyFile read(file());
  EXPECT_EQ(read.rows(), 3U);
  EXPECT_EQ(read.columns(), 2U);
  std::vector<float> got(6);
  read.read(0, got);
  EXPECT_EQ(got, values);
  const std::string digest = digest_with(digest_with("", std::as_bytes(std::span(values).first(4))),
                                         std::as_bytes(std::span(values).subspan(4)));
  EXPECT_EQ(vectors.digest(), digest);

  NpyWriter numbers(file(), 1);
  numbers.append(values);
  numbers.commit();
  EXPECT_EQ(NpyFile(file()).rows(), 6U);
  EXPECT_EQ(NpyFile(file()).columns(), 1U);
  std::ifstream stream(file(), std::ios::binary);
  std::string header(128, ' ');
  stream.read(header.data(), 128);
  EXPECT_THAT(header, HasSubstr("'shape': (6,), }"));
}

TEST_F(NpyFileTest, AFileThatCannotBePutInPlaceIsNamed) {
  std::filesystem::create_directories(file() / "in the way");
  NpyWriter writer(file(), 1);
  const Error error = test::error_of([&] { writer.commit(); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("cannot write " + file().string() + ":"));
}

TEST_F(NpyFileTest, ReadsIntegersWhereTheyAreAskedFor) {
  const auto read = [&] {
    const NpyFile npy(file(), NpyFile::Elements::kIntegers);
    std::vector<std::int64_t> values(npy.rows() * npy.columns());
    npy.read_integers(0, values);
    return values;
  };
  write<std::int32_t>("{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2), }", {7, -1});
  EXPECT_EQ(read(), (std::vector<std::int64_t>{7, -1}));
  write<std::uint32_t>("{'descr': '<u4', 'fortran_order': False, 'shape': (2,), }", {7, ~0U});
  EXPECT_EQ(read(), (std::vector<std::int64_t>{7, 0xffffffff}));
  write<std::uint64_t>("{'descr': '<u8', 'fortran_order': False, 'shape': (2,), }", {7, ~0UL});
  EXPECT_EQ(read(), (std::vector<std::int64_t>{7, -1}));
  write<float>("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", {1});
  EXPECT_THAT(test::error_of(read).message(), HasSubstr("save array.astype('int64')"));
}

TEST_F(NpyFileTest, NamesTheProblemOfADamagedFile) {
  const std::vector<float> six(6);
  refused(ErrorCode::kNotFound, "No such file");
  std::ofstream(file()) << "id,vector\n1,0.5 0.5\n";
  refused(ErrorCode::kDataLoss, "it lacks the signature of .npy files");
  write<float>("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2), }", six);
  refused(ErrorCode::kIncompatible, "save array.astype('float32')");
  write<float>("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", six);
  refused(ErrorCode::kIncompatible, "save numpy.ascontiguousarray(array)");
  write<float>("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1, 2), }", six);
  refused(ErrorCode::kIncompatible, "has 3 dimensions");
  write<float>("{'descr': '<f4', 'shape': (3, 2), }", six);
  refused(ErrorCode::kDataLoss, "its header lacks");
  write<float>("{'descr': '<f4', 'fortran_order': False, 'shape': (3, -2), }", six);
  refused(ErrorCode::kDataLoss, "its header lacks");
  write<float>("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }", six);
  refused(ErrorCode::kDataLoss, "its length is not that of 4 rows of 2");
  write<float>("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", six, 9);
  refused(ErrorCode::kIncompatible, "has format 9");
  write<float>("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", six);
  std::filesystem::resize_file(file(), 40);
  refused(ErrorCode::kDataLoss, "it ends early");
}

}  // namespace
}  // namespace weft::apps
