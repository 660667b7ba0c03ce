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

/// Fixed-size key of an id: the integer itself, or a 128-bit hash of a text. The chance that any
/// two of 2^32 texts have equal keys is below 2^-64.
struct IdKey {
  std::uint64_t first = 0, second = 0;
  friend auto operator<=>(const IdKey&, const IdKey&) = default;
};
IdKey key_of(const RowId& id);

/// Reference from a row to the id of its neighbour.
struct IdReference {
  IdKey to;
  PointId from = 0;
  float similarity = 0;
};

/// Index from ids to rows. Spills ids and references to files by a hash, and loads one part at a
/// time: 20 MB for 100 million rows. Not thread-safe; use once.
class IdIndex final {
 public:
  /// Row whose id an earlier row already has.
  struct Duplicate {
    PointId row = 0, before = 0;
  };

  /// Creates `folder`, which the destructor removes. `rows` is the number of rows to expect.
  IdIndex(std::filesystem::path folder, std::uint64_t rows);
  IdIndex(const IdIndex&) = delete;
  IdIndex& operator=(const IdIndex&) = delete;
  ~IdIndex();

  // Throw as SpillWriter does.
  void add(const IdKey& key, PointId row);
  void add_reference(const IdReference& reference);

  /// Resolves all references after everything was added. Calls `visit` with each reference and the
  /// row of its id, null if no row has it, in no particular order. If ids repeat, returns the
  /// lowest row that repeats an earlier row's id.
  std::optional<Duplicate> resolve(
      const std::function<void(const IdReference&, std::optional<PointId>)>& visit);

 private:
  const std::filesystem::path folder_;
  const ShardLayout parts_;  ///< Parts of the range of hashes.
  ShardSpills ids_, references_;
  ByteWriter record_;
};

}  // namespace weft::apps
