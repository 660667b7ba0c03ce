#include "mesh/program/op_time_model.h"

#include "core/device/emulated_device.h"

namespace weft::mesh {

OpTimeModel cost_model_seconds(double flops_per_second) {
  const EmulatedDeviceOptions device{flops_per_second};
  return [device](const Op& op, std::span<const TensorType> inputs) {
    return emulated_seconds(device, op, inputs);
  };
}

}  // namespace weft::mesh
