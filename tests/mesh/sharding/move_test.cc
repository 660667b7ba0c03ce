#include "mesh/sharding/move.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "mesh/sharding/axis_groups.h"

namespace weft::mesh {
namespace {

DeviceMesh cube(std::int64_t i, std::int64_t j, std::int64_t l) {
  std::vector<transfer::DeviceId> devices;
  for (std::int64_t d = 0; d < i * j * l; ++d) devices.emplace_back(d);
  return DeviceMesh("cube", {{"i", i}, {"j", j}, {"l", l}}, devices);
}

/// Elements of each device's region in row-major order, by rank.
using Shards = std::vector<std::vector<double>>;

/// Returns the row-major index in the whole tensor of each element of a region.
std::vector<std::int64_t> places(const Shape& shape, const Region& region) {
  std::vector<std::int64_t> found{0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t place : found)
      for (std::int64_t i = region.intervals()[d].begin; i < region.intervals()[d].end; ++i)
        longer.push_back(place * shape[d] + i);
    found = std::move(longer);
  }
  return found;
}

std::vector<std::int64_t> places(const Shape& shape, const Spec& spec, const DeviceMesh& mesh,
                                 int rank) {
  return places(shape, region_of(shape, spec, mesh, rank));
}

/// Move as a linear map over the devices' shards. A device may use only shards of devices that
/// differ along the move's axes. The transpose swaps gather and scatter, and pads sliced-off
/// elements with zeros.
class Moving {
 public:
  Moving(const Shape& shape, const Move& move, const DeviceMesh& mesh)
      : shape_(shape), move_(move), mesh_(mesh) {}

  Shards apply(const Shards& in) const { return map(in, move_.from, move_.to, sums(move_.kind)); }

  Shards transpose(const Shards& out) const {
    const bool sum = move_.kind == MoveKind::kAllGather || move_.kind == MoveKind::kAllReduce;
    return map(out, move_.to, move_.from, sum);
  }

 private:
  static bool sums(MoveKind kind) {
    return kind == MoveKind::kAllReduce || kind == MoveKind::kReduceScatter;
  }

  /// Computes each element as the sum over the group, or copies it from a device of the group.
  Shards map(const Shards& in, const Spec& from, const Spec& to, bool sum) const {
    Shards out(mesh_.size());
    const auto groups =
        move_.kind == MoveKind::kSlice ? groups_over(mesh_, {}) : groups_over(mesh_, move_.axes);
    for (const std::vector<int>& group : groups) {
      std::map<std::int64_t, std::vector<double>> held;
      for (const int rank : group) {
        const auto at = places(shape_, from, mesh_, rank);
        for (std::size_t e = 0; e < at.size(); ++e) held[at[e]].push_back(in[rank][e]);
      }
      for (const int rank : group) {
        for (const std::int64_t place : places(shape_, to, mesh_, rank)) {
          const std::vector<double>& terms = held[place];
          if (sum) EXPECT_EQ(terms.size(), group.size()) << to_string(move_, mesh_);
          else EXPECT_LE(terms.size(), 1u) << to_string(move_, mesh_);
          out[rank].push_back(std::accumulate(terms.begin(), terms.end(), 0.0));
        }
      }
    }
    return out;
  }

  const Shape& shape_;
  const Move& move_;
  const DeviceMesh& mesh_;
};

double inner(const Shards& a, const Shards& b) {
  double sum = 0;
  for (std::size_t rank = 0; rank < a.size(); ++rank)
    sum += std::inner_product(a[rank].begin(), a[rank].end(), b[rank].begin(), 0.0);
  return sum;
}

Shards random_shards(const Shape& shape, const Spec& spec, const DeviceMesh& mesh,
                     std::mt19937& random) {
  Shards shards(mesh.size());
  for (int rank = 0; rank < mesh.size(); ++rank) {
    shards[rank].resize(region_of(shape, spec, mesh, rank).num_elements());
    for (double& value : shards[rank]) value = std::uniform_int_distribution(-9, 9)(random);
  }
  return shards;
}

/// Makes a random spec: each mesh axis splits a dimension, holds replicas or, if in `summable`, is
/// partial.
Spec random_spec(std::size_t dims, std::vector<int> summable, std::mt19937& random) {
  Spec spec = Spec::replicated(dims);
  std::vector<int> axes{0, 1, 2};
  std::shuffle(axes.begin(), axes.end(), random);
  for (const int axis : axes) {
    const std::size_t what = std::uniform_int_distribution<std::size_t>(0, dims + 1)(random);
    const bool may_sum = std::find(summable.begin(), summable.end(), axis) != summable.end();
    if (what < dims) spec.dims[what].push_back(axis);
    else if (what == dims && may_sum) spec.partial.push_back(axis);
  }
  std::sort(spec.partial.begin(), spec.partial.end());
  return spec;
}

std::int64_t received(const Shape& shape, const std::vector<Move>& moves, const DeviceMesh& mesh) {
  std::int64_t sum = 0;
  for (const Move& move : moves) sum += received_elements(shape, move, mesh);
  return sum;
}

std::vector<std::string> texts(const std::vector<Move>& moves, const DeviceMesh& mesh) {
  std::vector<std::string> lines;
  for (const Move& move : moves) lines.push_back(to_string(move, mesh));
  return lines;
}

class RandomMoves : public testing::TestWithParam<int> {};

TEST_P(RandomMoves, BringEveryElementToItsDestinationAndHaveAdjoints) {
  std::mt19937 random(GetParam());
  const DeviceMesh mesh = GetParam() % 2 == 0 ? cube(2, 2, 2) : cube(2, 3, 2);
  const Shape shape = GetParam() % 3 == 0 ? Shape{24} : Shape{24, 24};
  for (int round = 0; round < 25; ++round) {
    const Spec from = random_spec(shape.size(), {0, 1, 2}, random);
    const Spec to = random_spec(shape.size(), from.partial, random);
    SCOPED_TRACE(to_string(from, mesh) + " -> " + to_string(to, mesh));
    const std::vector<Move> moves = plan_moves(shape, from, to, mesh);
    // Tensor whose elements are equal on all devices along replicated axes.
    Shards now(mesh.size());
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const Coordinate at = mesh.coordinate(rank);
      for (const std::int64_t place : places(shape, from, mesh, rank)) {
        double value = place % 97;
        for (const int axis : from.partial) value = 3 * value + (at[axis] + 1) * (place % 7);
        now[rank].push_back(value);
      }
    }
    for (const Move& move : moves) {
      const Moving moving(shape, move, mesh);
      const Shards x = random_shards(shape, move.from, mesh, random);
      const Shards y = random_shards(shape, move.to, mesh, random);
      EXPECT_EQ(inner(moving.apply(x), y), inner(x, moving.transpose(y))) << to_string(move, mesh);
      now = moving.apply(now);
    }
    for (int rank = 0; rank < mesh.size(); ++rank) {
      std::vector<double> expected;
      for (const std::int64_t place : places(shape, to, mesh, rank)) {
        // Sum over axes that are no longer partial. For axes that still are, this rank's term.
        double sum = 0;
        for (int other = 0; other < mesh.size(); ++other) {
          const Coordinate at = mesh.coordinate(other), here = mesh.coordinate(rank);
          bool term = true;
          for (int axis = 0; axis < 3; ++axis) {
            const bool free = from.is_partial_over(axis) && !to.is_partial_over(axis);
            term = term && (free || at[axis] == here[axis]);
          }
          if (!term) continue;
          double value = place % 97;
          for (const int axis : from.partial) value = 3 * value + (at[axis] + 1) * (place % 7);
          sum += value;
        }
        expected.push_back(sum);
      }
      EXPECT_EQ(now[rank], expected) << "rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomMoves, testing::Range(0, 24));

TEST(Moves, OfA3dLinearAreOneCollectiveEach) {
  const DeviceMesh mesh = cube(2, 2, 2);
  const int i = 0, j = 1, l = 2;
  const Shape x{64, 32};
  const auto gathered = plan_moves(x, {{{i, j}, {l}}, {}}, {{{i}, {l}}, {}}, mesh);
  EXPECT_EQ(texts(gathered, mesh), (std::vector<std::string>{"all-gather j: [i+j,l] -> [i,l]"}));
  EXPECT_EQ(received(x, gathered, mesh), 64 * 32 / 8);  // (q-1)/q^3
  const auto scattered = plan_moves(x, {{{i}, {j}}, {l}}, {{{i, l}, {j}}, {}}, mesh);
  EXPECT_EQ(texts(scattered, mesh),
            (std::vector<std::string>{"reduce-scatter l: [i,j] partial(l) -> [i+l,j]"}));
  EXPECT_EQ(received(x, scattered, mesh), 64 * 32 / 8);
}

TEST(Moves, SumsOverSeveralAxesAreOneCollective) {
  const DeviceMesh mesh = cube(2, 3, 2);
  EXPECT_EQ(texts(plan_moves({24}, {{{}}, {0, 1}}, {{{}}, {}}, mesh), mesh),
            (std::vector<std::string>{"all-reduce i+j: [-] partial(i+j) -> [-]"}));
  EXPECT_EQ(texts(plan_moves({24}, {{{}}, {0, 1}}, {{{1, 0}}, {}}, mesh), mesh),
            (std::vector<std::string>{"reduce-scatter i+j: [-] partial(i+j) -> [j+i]"}));
}

TEST(Moves, LocalDataIsSlicedAndAnotherAxisOrderIsExchanged) {
  const DeviceMesh mesh = cube(2, 3, 2);
  EXPECT_TRUE(plan_moves({24}, {{{0}}, {}}, {{{0}}, {}}, mesh).empty());
  EXPECT_EQ(texts(plan_moves({24}, {{{0}}, {}}, {{{0, 1}}, {}}, mesh), mesh),
            (std::vector<std::string>{"slice j: [i] -> [i+j]"}));
  EXPECT_EQ(texts(plan_moves({24, 24}, {{{0}, {}}, {}}, {{{}, {0}}, {}}, mesh), mesh),
            (std::vector<std::string>{"all-to-all i: [i,-] -> [-,i]"}));
  EXPECT_EQ(texts(plan_moves({24}, {{{0, 2}}, {}}, {{{2, 0}}, {}}, mesh), mesh),
            (std::vector<std::string>{"all-to-all i+l: [i+l] -> [l+i]"}));
}

TEST(Moves, ASumThatAnotherOpTakesOnStays) {
  const DeviceMesh mesh = cube(2, 3, 2);
  EXPECT_EQ(texts(plan_moves({24}, {{{}}, {0, 1}}, {{{0}}, {1}}, mesh), mesh),
            (std::vector<std::string>{"reduce-scatter i: [-] partial(i+j) -> [i] partial(j)"}));
}

}  // namespace
}  // namespace weft::mesh
