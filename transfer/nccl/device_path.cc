#include "transfer/nccl/device_path.h"

#include <fmt/format.h>

#include <map>

namespace weft::transfer {

PathChoice choose_path(std::span<const DeviceCapabilities> places) {
  const auto staged = [](std::string reason) {
    return PathChoice{PathChoice::Path::kHostStaged, std::move(reason)};
  };
  std::map<std::pair<std::string, std::string>, DeviceId> seen;
  for (const DeviceCapabilities& place : places) {
    if (!place.is_gpu) return staged(fmt::format("device {} is not a GPU", place.device));
    if (place.library.empty())
      return staged(
          fmt::format("device {} has no collectives: {}", place.device, place.library_error));
    if (place.library != places.front().library) {
      return staged(fmt::format("device {} has {} and device {} has {}", places.front().device,
                                places.front().library, place.device, place.library));
    }
    const auto [other, added] =
        seen.try_emplace({place.library_host, place.processor}, place.device);
    if (!added) {
      return staged(
          fmt::format("devices {} and {} are the same GPU, {} of host {}; for tests, processes on "
                      "one GPU need different "
                      "NCCL_HOSTID",
                      other->second, place.device, place.processor, place.library_host));
    }
  }
  return {PathChoice::Path::kCollectives, {}};
}

}  // namespace weft::transfer
