#include "mesh/stage_costs/node_seconds.h"

#include "core/device_emulated/emulated_device.h"

namespace weft::mesh {

NodeSeconds cost_model_seconds(double flops_per_second) {
  const EmulatedDeviceOptions device{flops_per_second};
  return [device](const Graph& graph, NodeId node, std::span<const TensorType> inputs) {
    return emulated_seconds(device, graph.node(node).op, inputs);
  };
}

}  // namespace weft::mesh
