#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "apps/select_input/prepare_input.h"
#include "apps/selection/npy_file.h"
#include "apps/selection/shard_spills.h"

namespace weft::apps {

/// Neighbours that an input gives, brought into the files of a PreparedInput: they wait in files by
/// ranges of rows, and one range after the other comes into memory. Each edge must be there from
/// both of its ends. One thread, used once.
class GivenNeighbours final {
 public:
  /// An edge that cannot be, as `row` has it or should have it.
  struct Refusal {
    enum class Why : std::uint8_t { kTwice, kMissing, kOtherSimilarity };
    PointId row = 0, other = 0;
    Why why = Why::kTwice;
  };

  /// `folder`: where files wait. `rows`: how many there are.
  GivenNeighbours(const std::filesystem::path& folder, std::uint64_t rows);

  /// `row` lists `other`. Throws what SpillWriter throws.
  void add(PointId row, PointId other, float similarity);
  /// All have been added. `most`: neighbours of a row. `vectors`: of which similarities are made;
  /// null where they have been given. Calls `tell` with the rows so far. Gives the digest of the
  /// files; or the refusal, and they are not there.
  struct Written {
    std::string digest;
    std::optional<Refusal> refusal = {};
  };
  Written write(const PreparedInput& files, std::uint64_t most, const NpyFile* vectors,
                const std::function<void(std::uint64_t)>& tell);

 private:
  ShardLayout ranges_;
  ShardSpills edges_;
  ByteWriter record_;
};

}  // namespace weft::apps
