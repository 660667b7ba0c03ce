#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "apps/parquet/parquet.h"
#include "apps/selection/shard_spills.h"

namespace weft::apps {

/// Stands for an id: an integer for itself, a text for 128 bits of a hash of it, in which no two of
/// 2^32 texts are equal but by a chance of 2^-64.
struct IdKey {
  std::uint64_t first = 0, second = 0;
  friend auto operator<=>(const IdKey&, const IdKey&) = default;
};
IdKey key_of(const RowId& id);

/// A row that lists another one as its neighbour.
struct IdReference {
  IdKey to;
  PointId from = 0;
  float similarity = 0;
};

/// Which row has which id. Ids, and those that rows refer to, are put aside in files by a hash, and
/// one part of them after the other comes into memory: of 100 million rows, 20 MB. One thread, used
/// once.
class IdIndex final {
 public:
  /// Two rows of one id.
  struct Duplicate {
    PointId row = 0, before = 0;
  };

  /// `folder`: is made, and gone with this. `rows`: how many there will be.
  IdIndex(std::filesystem::path folder, std::uint64_t rows);
  IdIndex(const IdIndex&) = delete;
  IdIndex& operator=(const IdIndex&) = delete;
  ~IdIndex();

  // Throw what SpillWriter throws.
  void add(const IdKey& key, PointId row);
  void refer(const IdReference& reference);

  /// All have been added. Calls `visit` with each reference and the row of its id, or nothing where
  /// no row has it; in no order. Of rows with one id it gives the first that had come before.
  std::optional<Duplicate> resolve(
      const std::function<void(const IdReference&, std::optional<PointId>)>& visit);

 private:
  const std::filesystem::path folder_;
  const ShardLayout parts_;  ///< Of hashes.
  ShardSpills ids_, references_;
  ByteWriter record_;
};

}  // namespace weft::apps
