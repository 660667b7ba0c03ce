#include "mesh/sharding/move.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <utility>

#include "core/base/check.h"

namespace weft::mesh {
namespace {

std::int64_t ways_of(const std::vector<int>& axes, const DeviceMesh& mesh) {
  std::int64_t ways = 1;
  for (const int axis : axes) ways *= mesh.axes()[axis].size;
  return ways;
}

bool divides(const Shape& shape, const Spec& spec, const DeviceMesh& mesh) {
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] % ways_of(spec.dims[d], mesh) != 0) return false;
  return true;
}

std::int64_t local_elements(const Shape& shape, const Spec& spec, const DeviceMesh& mesh) {
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) elements *= shape[d] / ways_of(spec.dims[d], mesh);
  return elements;
}

/// Cost of a sequence of moves. Earlier members weigh more.
struct MoveCost {
  std::int64_t elements = 0;
  int collectives = 0;
  /// Breaks ties: an all-to-all is chosen only if no other kind costs as little.
  int all_to_alls = 0;
  friend auto operator<=>(const MoveCost&, const MoveCost&) = default;
};

/// Generator of the moves from one spec that can be on the way to `to`.
class MoveGenerator {
 public:
  MoveGenerator(const Shape& shape, const Spec& to, const DeviceMesh& mesh)
      : shape_(shape), to_(to), mesh_(mesh) {}

  std::vector<Move> from(const Spec& spec) {
    from_ = &spec;
    found_.clear();
    slices();
    gathers();
    sums();
    exchanges();
    return std::move(found_);
  }

 private:
  void add(MoveKind kind, std::vector<int> axes, Spec to) {
    if (!divides(shape_, to, mesh_)) return;
    std::sort(axes.begin(), axes.end());
    std::sort(to.partial.begin(), to.partial.end());
    found_.push_back({kind, std::move(axes), *from_, std::move(to)});
  }

  void slices() {
    for (std::size_t d = 0; d < to_.dims.size(); ++d) {
      for (const int axis : to_.dims[d]) {
        if (!from_->is_replicated_over(axis)) continue;
        Spec to = *from_;
        to.dims[d].push_back(axis);
        add(MoveKind::kSlice, {axis}, std::move(to));
      }
    }
  }

  void gathers() {
    for (std::size_t d = 0; d < from_->dims.size(); ++d) {
      Spec to = *from_;
      std::vector<int> axes;
      while (!to.dims[d].empty()) {
        axes.push_back(to.dims[d].back());
        to.dims[d].pop_back();
        add(MoveKind::kAllGather, axes, to);
      }
    }
  }

  /// Adds sums over every set of axes: as an all-reduce and, if `to` splits dimensions by all these
  /// axes, as a reduce-scatter.
  void sums() {
    std::vector<int> summed;
    for (const int axis : from_->partial)
      if (!to_.is_partial_over(axis)) summed.push_back(axis);
    for (unsigned set = 1; set < 1u << summed.size(); ++set) {
      std::vector<int> axes;
      for (std::size_t i = 0; i < summed.size(); ++i)
        if (set >> i & 1) axes.push_back(summed[i]);
      Spec whole = *from_;
      std::erase_if(whole.partial, [&](int axis) {
        return std::find(axes.begin(), axes.end(), axis) != axes.end();
      });
      add(MoveKind::kAllReduce, axes, whole);
      if (std::any_of(axes.begin(), axes.end(), [&](int axis) { return to_.dim_of(axis) < 0; }))
        continue;
      Spec scattered = whole;  // axes in the order of `to`
      for (std::size_t d = 0; d < to_.dims.size(); ++d) {
        for (const int axis : to_.dims[d])
          if (std::find(axes.begin(), axes.end(), axis) != axes.end())
            scattered.dims[d].push_back(axis);
      }
      add(MoveKind::kReduceScatter, axes, scattered);
    }
  }

  void exchanges() {
    for (std::size_t d = 0; d < from_->dims.size(); ++d) {
      if (from_->dims[d].empty()) continue;
      const int axis = from_->dims[d].back();
      const int other = to_.dim_of(axis);
      if (other < 0 || other == static_cast<int>(d)) continue;
      Spec to = *from_;
      to.dims[d].pop_back();
      to.dims[other].push_back(axis);
      add(MoveKind::kAllToAll, {axis}, std::move(to));
    }
    // Moves all axes to the dimensions and order of `to`. Axes that `to` lacks are gathered next.
    Spec ordered = *from_;
    for (std::size_t d = 0; d < to_.dims.size(); ++d) {
      ordered.dims[d].clear();
      for (const int axis : to_.dims[d])
        if (from_->dim_of(axis) >= 0) ordered.dims[d].push_back(axis);
      for (const int axis : from_->dims[d])
        if (to_.dim_of(axis) < 0) ordered.dims[d].push_back(axis);
    }
    if (ordered == *from_) return;
    std::vector<int> axes;
    for (std::size_t axis = 0; axis < mesh_.axes().size(); ++axis)
      if (from_->dim_of(axis) >= 0) axes.push_back(axis);
    add(MoveKind::kAllToAll, std::move(axes), std::move(ordered));
  }

  const Shape& shape_;
  const Spec& to_;
  const DeviceMesh& mesh_;
  const Spec* from_ = nullptr;
  std::vector<Move> found_;
};

std::int64_t most_lacked(const Shape& shape, const Move& move, const DeviceMesh& mesh) {
  std::int64_t most = 0;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const Region wanted = region_of(shape, move.to, mesh, rank);
    const auto held = region_of(shape, move.from, mesh, rank).intersect(wanted);
    most = std::max(most, wanted.num_elements() - (held ? held->num_elements() : 0));
  }
  return most;
}

}  // namespace

std::string_view to_string(MoveKind kind) {
  switch (kind) {
    case MoveKind::kSlice: return "slice";
    case MoveKind::kAllGather: return "all-gather";
    case MoveKind::kReduceScatter: return "reduce-scatter";
    case MoveKind::kAllReduce: return "all-reduce";
    case MoveKind::kAllToAll: return "all-to-all";
  }
  return "?";
}

std::string to_string(const Move& move, const DeviceMesh& mesh) {
  return fmt::format("{} {}: {} -> {}", to_string(move.kind), axes_text(move.axes, mesh),
                     to_string(move.from, mesh), to_string(move.to, mesh));
}

std::int64_t received_elements(const Shape& shape, const Move& move, const DeviceMesh& mesh) {
  const std::int64_t before = local_elements(shape, move.from, mesh);
  const std::int64_t after = local_elements(shape, move.to, mesh);
  const std::int64_t ways = ways_of(move.axes, mesh);
  switch (move.kind) {
    case MoveKind::kSlice: return 0;
    case MoveKind::kAllGather: return after - before;
    case MoveKind::kReduceScatter: return before - after;
    case MoveKind::kAllReduce: return 2 * (ways - 1) * before / ways;
    case MoveKind::kAllToAll: return most_lacked(shape, move, mesh);
  }
  return 0;
}

std::vector<Move> plan_moves(const Shape& shape, const Spec& from, const Spec& to,
                             const DeviceMesh& mesh) {
  WEFT_CHECK(
      std::includes(from.partial.begin(), from.partial.end(), to.partial.begin(), to.partial.end()),
      "no move makes partial sums: {} -> {}", to_string(from, mesh), to_string(to, mesh));
  // Dijkstra's shortest path over specs.
  struct ReachedSpec {
    MoveCost cost;
    std::optional<Move> by;
    bool done = false;
  };
  std::map<Spec, ReachedSpec> reached{{from, {}}};
  std::priority_queue<std::pair<MoveCost, Spec>, std::vector<std::pair<MoveCost, Spec>>,
                      std::greater<>>
      next;
  next.push({MoveCost(), from});
  MoveGenerator moves(shape, to, mesh);
  while (!next.empty()) {
    const auto [cost, spec] = next.top();
    next.pop();
    if (spec == to) break;
    if (std::exchange(reached[spec].done, true)) continue;
    for (Move& move : moves.from(spec)) {
      MoveCost sum = cost;
      sum.elements += received_elements(shape, move, mesh);
      sum.collectives += move.kind != MoveKind::kSlice;
      sum.all_to_alls += move.kind == MoveKind::kAllToAll;
      const auto [at, is_new] = reached.try_emplace(move.to, ReachedSpec{sum, {}, false});
      if (!is_new && at->second.cost <= sum) continue;
      next.push({sum, move.to});
      at->second = {sum, std::move(move), false};
    }
  }
  WEFT_CHECK(reached.contains(to), "no moves bring {} to {}", to_string(from, mesh),
             to_string(to, mesh));
  std::vector<Move> path;
  for (const Spec* at = &to; reached.at(*at).by; at = &path.back().from)
    path.push_back(*reached.at(*at).by);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace weft::mesh
