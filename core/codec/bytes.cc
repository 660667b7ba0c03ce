#include "core/codec/bytes.h"

#include <limits>

#include "core/base/error.h"

namespace weft {

namespace {
constexpr std::size_t kMaxEmptyElements = 1u << 16;
}

void ByteWriter::write_count(std::size_t count) {
  if (count > std::numeric_limits<std::uint32_t>::max())
    throw_error(ErrorCode::kInvalidArgument,
                "a container of {} elements is too large to send; the limit is 2^32-1", count);
  write(static_cast<std::uint32_t>(count));
}

std::size_t ByteReader::read_count(std::size_t min_bytes_each) {
  const std::size_t count = read<std::uint32_t>();
  const std::size_t limit = min_bytes_each == 0 ? kMaxEmptyElements : remaining() / min_bytes_each;
  if (count > limit)
    fail(fmt::format("a count of {} elements of at least {} bytes exceeds the remaining {} bytes",
                     count, min_bytes_each, remaining()));
  return count;
}

void ByteReader::fail(std::string_view problem) const {
  throw_error(ErrorCode::kDataLoss, "damaged bytes: {}, at byte {} of {}", problem, position_,
              bytes_.size());
}

void ByteReader::fail_short(std::size_t wanted) const {
  fail(fmt::format("{} bytes are needed and {} are left", wanted, remaining()));
}

void ByteReader::expect_end() const {
  if (remaining() != 0) fail(fmt::format("{} bytes are left over", remaining()));
}

}  // namespace weft
