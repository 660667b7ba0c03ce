#include "core/spill/spill_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

using testing::HasSubstr;

class SpillFile : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / "records"; }

  /// Writes the numbers 0 to count - 1, four bytes each. A block's label is its first number.
  void write(std::uint32_t count) const {
    const bool existed = std::filesystem::exists(file());
    SpillWriter writer(file());
    for (std::uint32_t i = 0; i < count; ++i) writer.append(std::as_bytes(std::span(&i, 1)), i);
    EXPECT_EQ(std::filesystem::exists(file()), existed);
    writer.commit();
    EXPECT_EQ(writer.payload_bytes(), 4 * std::uint64_t{count});
  }
  /// Checks the numbers 0 to count - 1 and returns the number of blocks.
  std::uint32_t read(std::uint32_t count) const {
    SpillReader reader(file());
    std::uint32_t expected = 0, blocks = 0;
    for (auto block = reader.next(); !block.empty(); block = reader.next()) {
      EXPECT_EQ(reader.label(), expected);
      for (; !block.empty(); block = block.subspan(4)) {
        std::uint32_t number = 0;
        std::memcpy(&number, block.data(), 4);
        EXPECT_EQ(number, expected++);
      }
      ++blocks;
    }
    EXPECT_TRUE(reader.next().empty());
    EXPECT_EQ(expected, count);
    return blocks;
  }
  std::string message_of_reading() const {
    return test::error_message(ErrorCode::kDataLoss, [&] {
      SpillReader reader(file());
      while (!reader.next().empty()) {
      }
    });
  }

  const test::ScratchFolder scratch_;
  const std::filesystem::path& folder_ = scratch_.path();
};

TEST_F(SpillFile, GivesBackWhatWasAppended) {
  write(0);
  EXPECT_EQ(read(0), 0U);
  write(1);
  EXPECT_EQ(read(1), 1U);
  // Overwrites the file. Blocks have 1 MiB.
  write(1'000'000);
  EXPECT_EQ(read(1'000'000), 4U);
}

TEST_F(SpillFile, NeverPartsARecord) {
  SpillWriter writer(file());
  const std::vector<std::byte> small(700'000, std::byte{1}), large(3'000'000, std::byte{2});
  for (const auto* record : {&small, &small, &large, &small}) writer.append(*record);
  writer.append({});
  writer.commit();
  EXPECT_EQ(writer.num_blocks(), 4U);
  SpillReader reader(file());
  for (const auto* record : {&small, &small, &large, &small}) {
    const auto block = reader.next();
    EXPECT_TRUE(std::ranges::equal(block, *record));
  }
  EXPECT_TRUE(reader.next().empty());
}

TEST_F(SpillFile, LeavesNothingUnlessCommitted) {
  {
    SpillWriter writer(file());
    writer.append(std::vector<std::byte>(2'000'000));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  const Error error = test::error_of([&] { const SpillReader reader(file()); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr("records: No such file"));
}

TEST_F(SpillFile, AnyDamageIsFoundOut) {
  write(600'000);
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(file()));
  for (const std::int64_t at : {std::int64_t{3}, std::int64_t{9}, std::int64_t{13},
                                std::int64_t{17}, std::int64_t{500'000}, size - 3}) {
    SCOPED_TRACE(at);
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at);
    const char was = static_cast<char>(stream.get());
    stream.seekp(at);
    stream.put(static_cast<char>(was ^ 0x20));
    stream.flush();
    EXPECT_THAT(message_of_reading(), HasSubstr("records is damaged in block "));
    stream.seekp(at);
    stream.put(was);
  }
  EXPECT_EQ(message_of_reading(), "");
  for (const std::int64_t left :
       {size - 1, size - 16, size / 2, std::int64_t{20}, std::int64_t{4}}) {
    SCOPED_TRACE(left);
    std::filesystem::resize_file(file(), static_cast<std::uintmax_t>(left));
    EXPECT_THAT(message_of_reading(), HasSubstr("is missing"));
  }
}

TEST_F(SpillFile, AFullDiskIsReported) {
  // Limit the size of files.
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit least{2'000'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &least);
  const Error full = test::error_of([&] {
    SpillWriter writer(file());
    for (int i = 0; i < 40; ++i) writer.append(std::vector<std::byte>(100'000));
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_EQ(full.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("records."));
  EXPECT_THAT(full.message(), HasSubstr("make room there, or give another folder"));
  EXPECT_EQ(
      test::error_of([&] { const SpillWriter writer(folder_ / "absent" / "records"); }).code(),
      ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace weft
