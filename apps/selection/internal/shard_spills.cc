#include "apps/selection/internal/shard_spills.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace weft::apps {
namespace {

/// Of each of many files.
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

}  // namespace

std::filesystem::path ShardSpills::path_of(std::uint32_t shard) const {
  return folder_ / fmt::format("{}-{:05}", name_, shard);
}

void ShardSpills::add(std::span<const std::byte> records) {
  if (records.size() % record_bytes_ != 0)
    throw_error(ErrorCode::kDataLoss, "{} bytes are no records of {}", records.size(),
                record_bytes_);
  for (; !records.empty(); records = records.subspan(record_bytes_)) {
    const auto record = records.first(record_bytes_);
    const auto id = ByteReader(record).read<PointId>();
    if (id >= layout_.points)
      throw_error(ErrorCode::kDataLoss, "a record is about point {} of {}", id, layout_.points);
    const std::uint32_t shard = layout_.shard_of(id);
    std::optional<SpillWriter>& file = files_[shard];
    if (!file) file.emplace(path_of(shard), kBlockBytes);
    file->append(record);
  }
}

void ShardSpills::commit() {
  for (auto& [shard, file] : files_) {
    file->commit(SpillWriter::Outlives::kProcess);
    file.reset();
  }
}

}  // namespace weft::apps
