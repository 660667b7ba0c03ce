#include "apps/selection/generated_points.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <system_error>
#include <vector>

#include "apps/selection/neighbours.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/philox.h"

namespace weft::apps {
namespace {

constexpr std::size_t kDimensions = 8;
using Vector = std::array<float, kDimensions>;

Vector draw_vector(PhiloxStream& random) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  Vector vector{};
  for (std::size_t i = 0; i < kDimensions; i += 2) {
    // Box-Muller transform.
    const double radius = std::sqrt(-2 * std::log(uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    vector[i] = static_cast<float>(radius * std::cos(angle));
    vector[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return vector;
}

std::uint16_t similarity_of(const Vector& a, const Vector& b) {
  float square = 0;
  for (std::size_t i = 0; i < kDimensions; ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return fraction_of(1 / (1 + square / kDimensions));
}

/// Points of a group, with their utilities and their neighbours by ascending id.
class PointGroup {
 public:
  PointGroup(const GeneratedPoints& request, std::uint64_t number)
      : first_(number * request.group),
        size_(std::min<std::uint64_t>(request.group, request.points - first_)),
        utilities_(size_),
        neighbours_(size_) {
    PhiloxStream random(request.seed, number);
    std::vector<Vector> vectors;
    for (std::uint32_t i = 0; i < size_; ++i) {
      utilities_[i] = random.below(65536);
      vectors.push_back(draw_vector(random));
    }
    for (std::uint32_t i = 0; i < size_; ++i) {
      for (std::uint32_t j = 0; j < size_; ++j)
        if (j != i) neighbours_[i].push_back({id(j), similarity_of(vectors[i], vectors[j])});
      keep_most_similar(neighbours_[i], request.neighbours);
    }
    make_symmetric(neighbours_, id(0));
  }

  std::uint32_t size() const { return size_; }
  PointId id(std::uint32_t i) const { return first_ + i; }
  std::uint16_t utility(std::uint32_t i) const { return utilities_[i]; }
  const std::vector<Neighbour>& neighbours(std::uint32_t i) const { return neighbours_[i]; }

 private:
  const std::uint64_t first_;
  const std::uint32_t size_;
  std::vector<std::uint16_t> utilities_;
  NeighbourLists neighbours_;
};

}  // namespace

std::uint64_t generate_shard(const std::filesystem::path& folder, const GeneratedPoints& request,
                             std::uint32_t shard) {
  if (request.points < 2 || request.points > std::uint64_t{1} << 32 || request.group < 2 ||
      request.shards < 1 || request.shards > request.points || request.neighbours < 1)
    throw_error(ErrorCode::kInvalidArgument,
                "{} points in groups of {}, {} shards, {} neighbours: there are at least 2 points "
                "in a group, 1 in a shard, and 1 neighbour",
                request.points, request.group, request.shards, request.neighbours);
  make_folders(folder, "give another `scratch`");
  const ShardLayout layout = request.layout();
  const std::uint64_t first = layout.first_of(shard), past = layout.first_of(shard + 1);
  PointShardWriter writer(folder, layout, shard);
  // A group that spans two shards is generated for each.
  for (std::uint64_t number = first / request.group; number * request.group < past; ++number) {
    const PointGroup group(request, number);
    for (std::uint32_t i = 0; i < group.size(); ++i)
      if (group.id(i) >= first && group.id(i) < past)
        writer.append(group.utility(i), group.neighbours(i));
  }
  writer.commit();
  return writer.num_edges();
}

void generate_points(const std::filesystem::path& folder, const GeneratedPoints& request) {
  std::uint64_t edges = 0;
  for (std::uint32_t shard = 0; shard < request.shards; ++shard)
    edges += generate_shard(folder, request, shard);
  write_store_index(folder, request.layout(), edges);
}

}  // namespace weft::apps
