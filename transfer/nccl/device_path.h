#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/codec/codec.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

/// Properties of a device process that determine the path of its transfers. Sent when it joins.
struct DeviceCapabilities {
  DeviceId device;
  bool is_gpu = false;
  /// PCI bus id of the GPU, such as "0000:3b:00.0". Distinguishes the GPUs of a host.
  std::string processor;
  std::string library_host;   ///< Host identity as the library sees it; see collective_host_name().
  std::string library;        ///< Library, such as "NCCL 2.28.9". Empty if it could not be loaded.
  std::string library_error;  ///< Reason why it could not be loaded, for messages.

  friend bool operator==(const DeviceCapabilities&, const DeviceCapabilities&) = default;
  static constexpr auto fields =
      weft::fields(&DeviceCapabilities::device, &DeviceCapabilities::is_gpu,
                   &DeviceCapabilities::processor, &DeviceCapabilities::library_host,
                   &DeviceCapabilities::library, &DeviceCapabilities::library_error);
};

/// Path of a transfer's bytes.
struct PathChoice {
  enum class Path : std::uint8_t {
    kCollectives,  ///< Path by the GPUs' library.
    kHostStaged,   ///< Path through host memory and the transfer engine.
  };
  Path path = Path::kHostStaged;
  /// Reason for kHostStaged, such as "device 3 is not a GPU". Empty for kCollectives.
  std::string reason;

  friend bool operator==(const PathChoice&, const PathChoice&) = default;
};

/// Chooses the path of a transfer between `places`. The library carries a transfer only as a whole.
/// So every device must be a GPU with the same version of the library. No two devices may be the
/// same GPU on what the library considers one host, which it rejects as a duplicate.
PathChoice choose_path(std::span<const DeviceCapabilities> places);

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::PathChoice::Path> {
  static constexpr auto kValue = weft::transfer::PathChoice::Path::kHostStaged;
};
