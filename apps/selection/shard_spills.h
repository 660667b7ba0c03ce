#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "apps/selection/point_store.h"
#include "core/codec/bytes.h"
#include "core/spill/spill_file.h"

namespace weft::apps {

/// Spill files for records about points of many shards, grouped by shard until they are read. Each
/// record begins with the id of its point. Not thread-safe.
class ShardSpills final {
 public:
  /// Creates files in `folder` whose names begin with `name`.
  ShardSpills(std::filesystem::path folder, std::string name, const ShardLayout& layout,
              std::size_t record_bytes)
      : folder_(std::move(folder)),
        name_(std::move(name)),
        layout_(layout),
        record_bytes_(record_bytes) {}

  /// Adds whole records. Throws as SpillWriter does, and Error(kDataLoss) for invalid records.
  void add(std::span<const std::byte> records);
  /// Finishes the files. Nothing can be added afterwards.
  void commit();
  bool has(std::uint32_t shard) const { return files_.contains(shard); }
  /// Calls `visit` with each record of the shard in order of arrival, and removes them.
  template <typename Visit>
  void drain(std::uint32_t shard, const Visit& visit) {
    const auto found = files_.find(shard);
    if (found == files_.end()) return;
    const auto each = [&](std::span<const std::byte> bytes) {
      ByteReader records(bytes);
      while (records.remaining() > 0) {
        ByteReader record(records.read_bytes(record_bytes_));
        visit(record);
      }
    };
    if (found->second.is_spilled) {
      {
        SpillReader reader(path_of(shard), SpillReader::PageCachePolicy::kKeep);
        for (auto block = reader.next(); !block.empty(); block = reader.next()) each(block);
      }
      std::filesystem::remove(path_of(shard));
    }
    each(found->second.rest.bytes());
    files_.erase(found);
  }

 private:
  /// Records of a shard. A file is created only if they exceed a block.
  struct Records {
    std::optional<SpillWriter> file = {};  ///< Null once committed.
    bool is_spilled = false;
    ByteWriter rest = {};  ///< Records after those in the file.
  };
  std::filesystem::path path_of(std::uint32_t shard) const;

  const std::filesystem::path folder_;
  const std::string name_;
  const ShardLayout layout_;
  const std::size_t record_bytes_;
  std::map<std::uint32_t, Records> files_;
};

}  // namespace weft::apps
