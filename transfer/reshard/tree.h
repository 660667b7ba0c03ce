#pragma once

#include <cstdint>
#include <vector>

#include "transfer/flow/flow.h"

namespace weft::transfer {

/// Bytes that hosts and devices send and receive under the plan in construction. A planner's
/// scratch value.
struct Loads {
  explicit Loads(const Topology& topology)
      : host_egress(topology.num_hosts()),
        device_egress(topology.num_devices()),
        device_ingress(topology.num_devices()) {}

  std::vector<std::uint64_t> host_egress;
  std::vector<std::uint64_t> device_egress;
  std::vector<std::uint64_t> device_ingress;

  /// Adds `bytes` along every edge.
  void add(const Topology& topology, const std::vector<FlowEdge>& edges, std::uint64_t bytes);
};

/// Adds a binary tree of edges: devices[0] is the parent of [1] and [2], [1] of [3] and [4], and so
/// on.
void add_binary_fan_out(const std::vector<DeviceId>& devices, std::vector<FlowEdge>& edges);

/// Returns the holder to send from to other hosts: on the host that sends least, the device that
/// sends least.
DeviceId least_loaded_holder(const std::vector<DeviceId>& holders, const Topology& topology,
                             const Loads& loads);

/// Returns a tree from `root` to `receivers`. Receivers on the root's host form a binary tree under
/// the root. Other hosts form a chain in ascending order of the bytes that they send, since the
/// last host forwards nothing. In each host, the least loaded device is the entry and fans out to
/// the others as a binary tree.
///
///   root ─▶ entry(host 1) ─▶ entry(host 2) ─▶ ...
///               ├▶ d            ├▶ d
///               └▶ d            └▶ d
std::vector<FlowEdge> broadcast_tree(DeviceId root, const std::vector<DeviceId>& receivers,
                                     const Topology& topology, const Loads& loads);

}  // namespace weft::transfer
