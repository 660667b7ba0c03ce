#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/secret.h"
#include "core/codec/codec.h"
#include "transfer/nccl/communicator_ledger.h"
#include "transfer/nccl/communicator_set.h"
#include "transfer/topology/topology.h"

namespace weft::mesh {

/// What computes.
enum class DeviceKind : std::uint8_t {
  kCpu,
  /// Takes the time that ops state, or would take at a stated rate; computes nothing (core/device).
  kEmulated,
  kCuda,  ///< A GPU.
  kAuto,  ///< A GPU where the machine has one that can be used, else the CPU.
};

/// What a device actor must know of itself before it can be reached.
struct DeviceSetup {
  transfer::DeviceId device;
  transfer::HostId host;
  std::uint64_t epoch = 0;  ///< Of the run; names its transfers.
  int threads = 1;          ///< Of the device's matrix products.
  /// Network interfaces that the data plane listens on, as UCX names them; empty: all.
  std::string interfaces = {};
  DeviceKind kind = DeviceKind::kCpu;
  /// Of an emulated device, for ops that state no seconds; 0: they take no time.
  double flops_per_second = 0;
  /// Which of its machine's devices this is, over all hosts there: its GPU.
  int slot = 0;
  /// Whether slots beyond the number of GPUs begin with the first again.
  bool share_gpu = false;
  /// Whether a GPU must give equal results for equal inputs; see CudaDeviceOptions.
  bool deterministic = true;
  /// Of the run's data connections, made by the driver; see UcxOptions. Travels in control messages
  /// only, to who knows the token.
  Secret::Bytes secret = {};
  static constexpr auto fields =
      weft::fields(&DeviceSetup::device, &DeviceSetup::host, &DeviceSetup::epoch,
                   &DeviceSetup::threads, &DeviceSetup::interfaces, &DeviceSetup::kind,
                   &DeviceSetup::flops_per_second, &DeviceSetup::slot, &DeviceSetup::share_gpu,
                   &DeviceSetup::deterministic, &DeviceSetup::secret);
};

/// How to reach a device of the run.
struct PeerAddress {
  transfer::DeviceId device;
  transfer::HostId host;
  std::vector<std::byte> address;
  static constexpr auto fields =
      weft::fields(&PeerAddress::device, &PeerAddress::host, &PeerAddress::address);
};

/// Communicators to end and to create, with what their members share.
struct CommunicatorSetup {
  transfer::CommunicatorChanges changes;
  std::vector<transfer::CommunicatorId> ids;
  static constexpr auto fields = weft::fields(&CommunicatorSetup::changes, &CommunicatorSetup::ids);
};

}  // namespace weft::mesh

template <>
struct weft::last_enumerator<weft::mesh::DeviceKind> {
  static constexpr auto kValue = weft::mesh::DeviceKind::kAuto;
};
