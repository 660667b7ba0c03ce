#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/train/run_config.h"

namespace weft::apps {

/// Costs of a run under a layout. Each figure is the maximum over devices.
struct LayoutCosts {
  std::string layout;
  std::string meshes;   ///< "cube(i=2,j=2,l=2)"
  std::string refusal;  ///< Reason why the layout cannot be used. If it is set, the fields below
                        ///< are not.
  double received = 0;  ///< Bytes per step from devices of the same mesh.
  /// Bytes by the axes along which they move, such as "i" or "i+j", for a device of the mesh whose
  /// devices receive most.
  struct AxisBytes {
    double received = 0;  ///< Bytes as ring algorithms send them.
    /// Share of the linear layers by closed form; see mesh::predict_linear_traffic().
    double law = 0;
  };
  std::map<std::string, AxisBytes> by_axes;
  double law() const;             ///< Returns the sum over all axes.
  std::int64_t transfers = 0;     ///< Transfers that a device starts per step.
  std::uint64_t state = 0;        ///< Bytes of parameters, gradients and moments.
  std::uint64_t activations = 0;  ///< Bytes of activations, gathered weights included.
  std::uint64_t gathered = 0;     ///< Peak bytes of gathered weights.
};

/// Plans the run once per layout, with the number of devices of each mesh unchanged. Keeps a mesh's
/// axes if they have the layout's roles; otherwise chooses axes of sizes as equal as possible.
/// Throws Error(kInvalidArgument) for an unknown layout.
std::vector<LayoutCosts> compare_layouts(const RunConfig& config,
                                         const std::vector<std::string>& layouts);

std::string to_table(const std::vector<LayoutCosts>& figures);
std::string to_json(const std::vector<LayoutCosts>& figures);

}  // namespace weft::apps
