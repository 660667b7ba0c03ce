#include "apps/select_input/internal/given_neighbours.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/selection/neighbours.h"
#include "apps/selection/npy_writer.h"

namespace weft::apps {
namespace {

constexpr std::uint64_t kRowsOfRange = 1 << 15, kMostRanges = 256;
constexpr std::size_t kEdgeBytes = 13;

/// One end of an edge, as spilled. Each edge is spilled for both of its rows.
struct Edge {
  PointId row = 0, other = 0;
  bool is_own = false;  ///< True if `row` lists the edge, false if `other` does.
  float similarity = 0;

  auto place() const { return std::tuple(row, is_own, other); }
};

/// Similarities computed from two rows' vectors, equal in both directions.
class VectorPairs final {
 public:
  explicit VectorPairs(const NpyFile& file)
      : file_(file), one_(file.columns()), other_(file.columns()) {}
  float similarity(PointId row, PointId other) {
    if (row != row_ || !has_row_) read(row, one_);
    row_ = row;
    has_row_ = true;
    read(other, other_);
    return static_cast<float>(cosine_of(one_, other_) / 65535.0);
  }

 private:
  void read(PointId row, std::vector<float>& vector) const {
    file_.read(row, vector);
    normalise_vectors(vector, vector.size(), file_.path(), row);
  }

  const NpyFile& file_;
  PointId row_ = 0;  ///< Row of the vector in `one_`.
  bool has_row_ = false;
  std::vector<float> one_, other_;
};

/// Checks the edges of one row: each must be listed once by either row, with equal similarities.
std::optional<GivenNeighbours::InvalidEdge> check(std::span<const Edge> own,
                                                  std::span<const Edge> of_others) {
  using InvalidEdge = GivenNeighbours::InvalidEdge;
  const auto twice = std::ranges::adjacent_find(own, {}, &Edge::other);
  if (twice != own.end()) return InvalidEdge{twice->row, twice->other, InvalidEdge::Why::kTwice};
  const auto again = std::ranges::adjacent_find(of_others, {}, &Edge::other);
  if (again != of_others.end())
    return InvalidEdge{again->other, again->row, InvalidEdge::Why::kTwice};
  for (std::size_t i = 0; i < std::max(own.size(), of_others.size()); ++i) {
    const bool is_missing =
        i < of_others.size() && (i == own.size() || of_others[i].other < own[i].other);
    if (is_missing)
      return InvalidEdge{of_others[i].row, of_others[i].other, InvalidEdge::Why::kMissing};
    if (i == of_others.size() || own[i].other < of_others[i].other)
      return InvalidEdge{own[i].other, own[i].row, InvalidEdge::Why::kMissing};
    if (fraction_of(own[i].similarity) != fraction_of(of_others[i].similarity))
      return InvalidEdge{own[i].row, own[i].other, InvalidEdge::Why::kOtherSimilarity};
  }
  return std::nullopt;
}

}  // namespace

GivenNeighbours::GivenNeighbours(const std::filesystem::path& folder, std::uint64_t rows)
    : ranges_{rows, static_cast<std::uint32_t>(std::min(rows / kRowsOfRange + 1, kMostRanges))},
      edges_(folder, "edges", ranges_, kEdgeBytes) {}

void GivenNeighbours::add(PointId row, PointId other, float similarity) {
  record_.clear();
  for (const bool is_own : {true, false}) {
    record_.write(is_own ? row : other);
    record_.write(is_own ? other : row);
    record_.write(static_cast<std::uint8_t>(is_own ? 1 : 0));
    record_.write(similarity);
  }
  edges_.add(record_.bytes());
}

GivenNeighbours::Written GivenNeighbours::write(
    const PreparedInput& files, std::uint64_t most, const NpyFile* vectors,
    const std::function<void(std::uint64_t)>& on_progress) {
  edges_.commit();
  const std::uint64_t columns = std::max<std::uint64_t>(most, 1);
  NpyWriter ids(files.neighbours(), columns, NpyFile::Elements::kIntegers);
  NpyWriter similarities(files.similarities(), columns);
  std::optional<VectorPairs> pairs;
  if (vectors != nullptr) pairs.emplace(*vectors);
  std::vector<Edge> edges;
  std::vector<std::int64_t> row_ids(columns);
  std::vector<float> row_similarities(columns);
  for (std::uint32_t range = 0; range < ranges_.shards; ++range) {
    on_progress(ranges_.first_of(range));
    edges.clear();
    edges_.drain(range, [&](ByteReader& reader) {
      Edge edge;
      edge.row = reader.read<PointId>();
      edge.other = reader.read<PointId>();
      edge.is_own = reader.read<std::uint8_t>() != 0;
      edge.similarity = reader.read<float>();
      edges.push_back(edge);
    });
    std::ranges::sort(edges, {}, &Edge::place);
    std::span<Edge> rest = edges;
    std::vector<std::int64_t> block_ids;
    std::vector<float> block_similarities;
    for (std::uint64_t row = ranges_.first_of(range); row < ranges_.first_of(range + 1); ++row) {
      const auto is_of_row = [&](const Edge& edge) { return edge.row == row; };
      const auto count = std::ranges::find_if_not(rest, is_of_row) - rest.begin();
      const auto of_others = std::ranges::count(rest.first(count), false, &Edge::is_own);
      const std::span<Edge> own = rest.subspan(of_others, count - of_others);
      if (const auto invalid = check(own, rest.first(of_others))) return {"", invalid};
      rest = rest.subspan(count);
      std::ranges::fill(row_ids, -1);
      std::ranges::fill(row_similarities, 0.0F);
      for (std::size_t i = 0; i < own.size(); ++i) {
        row_ids[i] = own[i].other;
        row_similarities[i] =
            pairs ? pairs->similarity(own[i].row, own[i].other) : own[i].similarity;
      }
      block_ids.insert(block_ids.end(), row_ids.begin(), row_ids.end());
      block_similarities.insert(block_similarities.end(), row_similarities.begin(),
                                row_similarities.end());
    }
    ids.append(block_ids);
    similarities.append(block_similarities);
  }
  ids.commit();
  similarities.commit();
  return {ids.digest() + similarities.digest()};
}

}  // namespace weft::apps
