#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/codec/codec.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

/// What a device process says of itself when it joins, as far as the choice of the path goes.
struct DevicePlace {
  DeviceId device;
  bool is_gpu = false;
  /// The GPU's PCI bus id, "0000:3b:00.0"; what tells GPUs of one host apart.
  std::string processor;
  std::string library_host;    ///< What the library takes for the host: see collective_host_name().
  std::string library;         ///< "NCCL 2.28.9"; empty where it could not be loaded.
  std::string library_absent;  ///< Why, for people.

  friend bool operator==(const DevicePlace&, const DevicePlace&) = default;
  static constexpr auto fields =
      weft::fields(&DevicePlace::device, &DevicePlace::is_gpu, &DevicePlace::processor,
                   &DevicePlace::library_host, &DevicePlace::library, &DevicePlace::library_absent);
};

/// How the bytes of a transfer go.
struct PathChoice {
  enum class Path : std::uint8_t {
    kCollectives,  ///< The GPUs' own library.
    kStaged,       ///< Through host memory and the transfer engine.
  };
  Path path = Path::kStaged;
  std::string reason;  ///< Why staged: "device 3 is not a GPU"; empty for kCollectives.

  friend bool operator==(const PathChoice&, const PathChoice&) = default;
};

/// The library carries a transfer only if it can carry all of it: every device is a GPU with the
/// same version of the library, and no two of them are one GPU in what the library takes for one
/// host (which it refuses as a duplicate).
PathChoice choose_path(std::span<const DevicePlace> places);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::PathChoice::Path> {
  static constexpr auto kValue = weft::transfer::PathChoice::Path::kStaged;
};
