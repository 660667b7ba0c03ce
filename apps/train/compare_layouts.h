#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/train/run_config.h"

namespace weft::apps {

/// What a run would be under a layout: of the device that has most of each.
struct LayoutFigures {
  std::string layout;
  std::string meshes;   ///< "cube(i=2,j=2,l=2)"
  std::string refusal;  ///< Why it cannot be; else empty, and what follows holds.
  double received = 0;  ///< Bytes of a step from devices of its mesh.
  /// Bytes by the axes along which they move, "i" or "i+j": of a device of the mesh whose devices
  /// receive most.
  struct Along {
    double received = 0;  ///< As rings send them.
    double law = 0;       ///< Of it linears', by closed form: see mesh::linear_law().
  };
  std::map<std::string, Along> by_axes;
  double law() const;             ///< Of all axes.
  std::int64_t transfers = 0;     ///< Begun in a step.
  std::uint64_t state = 0;        ///< Bytes of parameters, gradients and moments.
  std::uint64_t activations = 0;  ///< Bytes of activations, gathered weights included.
  std::uint64_t gathered = 0;     ///< Most bytes of gathered weights at a time.
};

/// Plans the run once per layout, on meshes of as many devices each: on a mesh's own axes where
/// they have the layout's roles, else on axes that are as equal as they can be. Throws
/// Error(kInvalidArgument) for an unknown layout.
std::vector<LayoutFigures> compare_layouts(const RunConfig& config,
                                           const std::vector<std::string>& layouts);

std::string to_table(const std::vector<LayoutFigures>& figures);
std::string to_json(const std::vector<LayoutFigures>& figures);

}  // namespace weft::apps
