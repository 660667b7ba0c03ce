#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "transfer/nccl/device_path.h"

namespace weft::test {

/// Returns places of devices on separate GPUs that all reach each other.
inline std::vector<transfer::DeviceCapabilities> gpu_places(std::size_t devices) {
  std::vector<transfer::DeviceCapabilities> places;
  for (std::uint32_t i = 0; i < devices; ++i)
    places.push_back(
        {transfer::DeviceId(i), true, "fake " + std::to_string(i), "host", "fake collectives", ""});
  return places;
}

}  // namespace weft::test
