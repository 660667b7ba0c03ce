#include "mesh/layouts/internal/greedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/error.h"

namespace weft::mesh {
namespace {

/// Choice: the axis splits nothing, and all devices along it do the same work.
constexpr int kNone = -1;
/// Choice: all inputs are partial over the axis, and the op is linear, so its outputs are partial
/// too.
constexpr int kPassPartial = -2;

/// Sharding of one choice of factor per axis, and its cost.
class ShardingCandidate {
 public:
  ShardingCandidate(const FactorSignature& signature, const std::vector<TensorType>& types,
                    const std::vector<Spec>& current, const DeviceMesh& mesh,
                    const std::vector<int>& choice)
      : signature_(signature), types_(types), current_(current), mesh_(mesh), choice_(choice) {}

  /// Returns the axes that split a factor, outermost first, in the order of an input.
  std::vector<int> axes_of(int factor) const {
    std::vector<int> axes;
    for (std::size_t i = 0; i < current_.size(); ++i) {
      for (std::size_t d = 0; d < current_[i].dims.size(); ++d) {
        if (signature_.inputs[i][d] != factor) continue;
        for (const int axis : current_[i].dims[d]) {
          if (choice_[axis] == factor && std::find(axes.begin(), axes.end(), axis) == axes.end()) {
            axes.push_back(axis);
          }
        }
      }
    }
    return axes;
  }

  bool legal() const {
    for (std::size_t f = 0; f < signature_.factors.size(); ++f) {
      std::int64_t ways = 1;
      for (const int axis : axes_of(f)) ways *= mesh_.axes()[axis].size;
      const Factor& factor = signature_.factors[f];
      if (ways > 1 &&
          (factor.kind == FactorKind::kWhole || factor.size / factor.granularity % ways != 0))
        return false;
    }
    return true;
  }

  OpSharding sharding() const {
    OpSharding result;
    for (std::size_t f = 0; f < signature_.factors.size(); ++f)
      result.axes.push_back(axes_of(static_cast<int>(f)));
    for (std::size_t axis = 0; axis < choice_.size(); ++axis)
      if (choice_[axis] == kPassPartial) result.partial_axes.push_back(axis);
    return result;
  }

  /// Returns the bytes that a device receives to move the inputs into their specs, by ring
  /// collectives.
  double bytes(const OpSharding& sharding) const {
    const OpSpecs specs = specs_of(signature_, sharding);
    double sum = 0;
    for (std::size_t i = 0; i < current_.size(); ++i) {
      const Spec& from = current_[i];
      const Spec& to = specs.inputs[i];
      if (from == to) continue;
      double local = types_[i].bytes();
      for (const auto& axes : from.dims) {
        for (const int axis : axes) local /= mesh_.axes()[axis].size;
      }
      for (std::size_t axis = 0; axis < mesh_.axes().size(); ++axis) {
        const double n = mesh_.axes()[axis].size;
        const int a = axis;
        if (from.is_partial_over(a) && !to.is_partial_over(a)) sum += 2 * (n - 1) / n * local;
        if (from.dim_of(a) >= 0 && to.dim_of(a) != from.dim_of(a)) {
          sum += (n - 1) * local;
          local *= n;
        }
      }
    }
    return sum;
  }

 private:
  const FactorSignature& signature_;
  const std::vector<TensorType>& types_;
  const std::vector<Spec>& current_;
  const DeviceMesh& mesh_;
  const std::vector<int>& choice_;
};

/// Returns the choices of each axis: nothing, a factor that it splits in an input, or passing on
/// partial sums.
std::vector<std::vector<int>> options_per_axis(const FactorSignature& signature,
                                               const std::vector<Spec>& current,
                                               const DeviceMesh& mesh, const std::string& op) {
  std::vector<std::vector<int>> options(mesh.axes().size());
  for (std::size_t axis = 0; axis < options.size(); ++axis) {
    std::set<int> seen;
    // Only for ops that are linear in all inputs together (add). For others, a cheap sum of an
    // input would become an expensive sum of the outputs.
    bool all_partial =
        std::any_of(signature.linear_in.begin(), signature.linear_in.end(),
                    [&](const std::vector<int>& set) { return set.size() == current.size(); });
    for (std::size_t i = 0; i < current.size(); ++i) {
      const int dim = current[i].dim_of(axis);
      if (dim >= 0) {
        const int f = signature.inputs[i][dim];
        const Factor& factor = signature.factors[f];
        if (factor.granularity > 1 &&
            factor.size / factor.granularity % mesh.axes()[axis].size != 0) {
          throw Error(ErrorCode::kInvalidConfig,
                      fmt::format("{} works in units of {}: {} units cannot be split {} ways over "
                                  "axis '{}' of mesh {}; choose a number of heads "
                                  "that divides",
                                  op, factor.granularity, factor.size / factor.granularity,
                                  mesh.axes()[axis].size, mesh.axes()[axis].name, to_string(mesh)))
              .at("sharding");
        }
        if (factor.kind != FactorKind::kWhole) seen.insert(f);
      }
      all_partial = all_partial && current[i].is_partial_over(axis);
    }
    options[axis].push_back(kNone);
    options[axis].insert(options[axis].end(), seen.begin(), seen.end());
    if (all_partial) options[axis].push_back(kPassPartial);
  }
  return options;
}

}  // namespace

OpSharding choose_sharding(const FactorSignature& signature, const std::vector<TensorType>& inputs,
                           const std::vector<Spec>& current, const DeviceMesh& mesh,
                           const std::string& op) {
  const auto options = options_per_axis(signature, current, mesh, op);
  std::vector<std::size_t> index(options.size(), 0);
  std::vector<int> choice(options.size(), kNone);
  OpSharding best;
  double best_bytes = std::numeric_limits<double>::infinity();
  std::int64_t best_ways = 0;
  while (true) {
    std::int64_t ways = 1;
    for (std::size_t a = 0; a < options.size(); ++a) {
      choice[a] = options[a][index[a]];
      if (choice[a] != kNone) ways *= mesh.axes()[a].size;
    }
    const ShardingCandidate candidate(signature, inputs, current, mesh, choice);
    if (candidate.legal()) {
      OpSharding sharding = candidate.sharding();
      const double bytes = candidate.bytes(sharding);
      if (bytes < best_bytes || (bytes == best_bytes && ways > best_ways)) {
        best = std::move(sharding);
        best_bytes = bytes;
        best_ways = ways;
      }
    }
    std::size_t a = 0;
    while (a < options.size() && ++index[a] == options[a].size()) index[a++] = 0;
    if (a == options.size()) break;
  }
  return best;
}

}  // namespace weft::mesh
