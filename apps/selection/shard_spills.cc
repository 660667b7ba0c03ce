#include "apps/selection/shard_spills.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace weft::apps {
namespace {

/// Bytes that are kept in memory for each shard.
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

}  // namespace

std::filesystem::path ShardSpills::path_of(std::uint32_t shard) const {
  return folder_ / fmt::format("{}-{:05}", name_, shard);
}

void ShardSpills::add(std::span<const std::byte> records) {
  if (records.size() % record_bytes_ != 0)
    throw_error(ErrorCode::kDataLoss,
                "a received block of {} bytes is not a multiple of a record's {} bytes; start the "
                "run again",
                records.size(), record_bytes_);
  for (; !records.empty(); records = records.subspan(record_bytes_)) {
    const auto record = records.first(record_bytes_);
    const auto id = ByteReader(record).read<PointId>();
    if (id >= layout_.points)
      throw_error(ErrorCode::kDataLoss,
                  "a received record names point {}, but there are {} points; start the run again",
                  id, layout_.points);
    const std::uint32_t shard = layout_.shard_of(id);
    Records& of_shard = files_[shard];
    of_shard.rest.write_bytes(record);
    if (of_shard.rest.size() < kBlockBytes) continue;
    if (!of_shard.file) of_shard.file.emplace(path_of(shard), kBlockBytes);
    of_shard.is_spilled = true;
    for (auto bytes = of_shard.rest.bytes(); !bytes.empty(); bytes = bytes.subspan(record_bytes_))
      of_shard.file->append(bytes.first(record_bytes_));
    of_shard.rest.clear();
  }
}

void ShardSpills::commit() {
  for (auto& [shard, records] : files_) {
    if (records.file) records.file->commit(SpillWriter::CommitDurability::kProcess);
    records.file.reset();
  }
}

}  // namespace weft::apps
