#include "mesh/layouts/linear_traffic.h"

#include <algorithm>
#include <vector>

#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {
namespace {

bool has(const std::vector<int>& axes, int axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

}  // namespace

std::vector<TensorTraffic> predict_linear_traffic(const LayoutChoice& choice,
                                                  const DeviceMesh& mesh, const LinearShape& shape,
                                                  int microbatches) {
  const LayoutAxes axes = axes_of(choice, mesh);
  const LinearAxes& linear = shape.is_expand ? axes.expand : axes.contract;
  // Parameters are kept split over `parameter_axes`. Gradients are summed over token axes.
  std::vector<int> gathered, summed;
  for (std::size_t a = 0; a < mesh.axes().size(); ++a) {
    const auto axis = static_cast<int>(a);
    if (has(linear.k, axis) || has(linear.n, axis)) continue;
    if (has(axes.parameter_axes, axis)) gathered.push_back(axis);
    else if (has(axes.tokens, axis)) summed.push_back(axis);
  }
  const auto size = [&](const std::vector<int>& of) {
    return static_cast<double>(num_parts(of, mesh));
  };
  const double tokens = size(axes.tokens), k = size(linear.k), n = size(linear.n);
  const double w = shape.k * shape.n / (k * n * size(gathered));
  const GatherFrequency gather = choice.gather.value_or(GatherFrequency::kMicrobatch);
  const bool for_use = gather == GatherFrequency::kUse;
  const double times = microbatches;
  const double again = for_use ? times : 0;
  const double gathers = (gather == GatherFrequency::kStep ? 1 : times) + again;
  const double reductions = for_use ? times : 1;
  const double x_again = axes.split_residual ? again : 0;

  const double sums = size(summed);
  std::vector<TensorTraffic> law{
      {axes_text(linear.n, mesh),
       (2 * times + x_again) * (n - 1) * shape.m * shape.k / (tokens * k * n)},
      {axes_text(linear.k, mesh), 2 * times * (k - 1) * shape.m * shape.n / (tokens * k * n)},
      {axes_text(gathered, mesh), gathers * (size(gathered) - 1) * w,
       reductions * (size(gathered) - 1) * w},
      {axes_text(summed, mesh), 0, 2 * reductions * (sums - 1) / sums * w}};
  std::erase_if(law, [](const TensorTraffic& of) { return of.axes.empty(); });
  return law;
}

}  // namespace weft::mesh
