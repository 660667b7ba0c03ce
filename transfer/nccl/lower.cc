#include "transfer/nccl/lower.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "core/base/check.h"
#include "core/base/error.h"
#include "transfer/nccl/internal/operations_builder.h"
#include "transfer/nccl/internal/strided_copies.h"

namespace weft::transfer {
namespace {

class ReshardLowering {
 public:
  ReshardLowering(const ReshardPlan& plan, const LoweringOptions& options)
      : plan_(plan), options_(options), point_to_point_(options.point_to_point) {
    for (const DeviceId device : plan.devices()) {
      parts_.emplace(device, plan.device_part(device));
      builder_.add_device(device, parts_.at(device).tensors);
    }
    if (point_to_point_.devices.empty()) point_to_point_ = CommunicatorGroup::of(plan.devices());
  }

  LoweredTransfer run() && {
    for (const LocalCopy& copy : plan_.copies) {
      builder_.copy(copy.device,
                    copy_between(copy.region, element_size(copy.tensor),
                                 box(copy.device, BufferKind::kSource, copy.tensor),
                                 box(copy.device, BufferKind::kDestination, copy.tensor)));
    }
    for (const Flow& flow : plan_.flows) place(flow);
    add_rounds();
    for (auto& [device, copies] : unpacking_) {
      for (StridedCopy& copy : copies) builder_.copy(device, std::move(copy));
    }
    return std::move(builder_).finish();
  }

 private:
  std::size_t element_size(std::uint32_t tensor) const {
    return size_of(plan_.tasks[tensor].type.dtype);
  }

  PlacedBox box(DeviceId device, BufferKind kind, std::uint32_t tensor) const {
    const TensorPart& part = parts_.at(device).tensors[tensor];
    const auto& region = kind == BufferKind::kSource ? part.source : part.destination;
    WEFT_CHECK(region, "device {} has no {} of tensor {}", device,
               kind == BufferKind::kSource ? "source" : "destination", tensor);
    return {{kind, tensor, 0}, *region};
  }

  /// Returns the copies from a device's sources to the flow's payload at `dense`, or from there to
  /// its destinations.
  std::vector<StridedCopy> payload_copies(const Flow& flow, DeviceId device, BufferKind side,
                                          BufferPlace dense) const {
    std::vector<StridedCopy> copies;
    for (const Segment& segment : flow.segments) {
      const std::size_t size = element_size(segment.tensor);
      const PlacedBox of_device = box(device, side, segment.tensor);
      const auto more =
          side == BufferKind::kSource
              ? gather_copies(segment.region, size, segment.begin, segment.bytes, of_device, dense)
              : scatter_copies(segment.region, size, segment.begin, segment.bytes, dense,
                               of_device);
      copies.insert(copies.end(), more.begin(), more.end());
      dense.offset += segment.bytes;
    }
    return copies;
  }

  /// Returns the place of the whole payload on a device, if it is one run of bytes in one of its
  /// boxes.
  static std::optional<BufferPlace> contiguous(const std::vector<StridedCopy>& copies,
                                               BufferKind side) {
    std::optional<BufferPlace> first, end;
    for (const StridedCopy& copy : copies) {
      const BufferPlace& place = side == BufferKind::kSource ? copy.from : copy.to;
      if (!copy.outer.empty() || (end && !(*end == place))) return std::nullopt;
      if (!first) first = place;
      end = place;
      end->offset += copy.run_bytes;
    }
    return first;
  }

  void place(const Flow& flow) {
    // a result starts at the end of its sum, which place_hop() has placed
    if (flow.kind != FlowKind::kResult)
      places_[{flow.id, flow.root}] = payload_at(flow, flow.root, BufferKind::kSource);
    for (const FlowEdge& edge : flow.edges) {
      if (flow.kind == FlowKind::kSum) place_hop(flow, edge.child);
      else places_[{flow.id, edge.child}] = payload_at(flow, edge.child, BufferKind::kDestination);
    }
  }

  /// Returns the place of the flow's payload on a device: in its box if it is one run there,
  /// otherwise in staging that is packed before all rounds or unpacked after them.
  BufferPlace payload_at(const Flow& flow, DeviceId device, BufferKind side) {
    if (const auto run = contiguous(payload_copies(flow, device, side, {}), side)) return *run;
    const BufferPlace staging = builder_.stage(device, flow.bytes);
    for (StridedCopy& copy : payload_copies(flow, device, side, staging)) {
      if (side == BufferKind::kSource) builder_.copy(device, std::move(copy));
      else unpacking_[device].push_back(std::move(copy));
    }
    return staging;
  }

  /// Device on a chain of partial sums.
  struct SumHop {
    DType dtype = DType::kF32;
    BufferPlace term;  ///< Whole term of the device.
    /// Double buffer: one piece arrives while the previous one is sent.
    std::array<BufferPlace, 2> pieces;
    std::optional<BufferPlace> destination;  ///< Place of the whole sum, if the device keeps it.

    /// Returns the place of the piece that begins at `begin` in the payload, after the device has
    /// added its term.
    BufferPlace sum_at(std::uint64_t begin, std::uint64_t piece_bytes) const {
      return destination ? shifted(*destination, begin) : pieces[begin / piece_bytes % 2];
    }
  };

  void place_hop(const Flow& flow, DeviceId device) {
    SumHop& hop = hops_[{flow.id, device}];
    hop.dtype = plan_.tasks[flow.segments.front().tensor].type.dtype;
    hop.term = payload_at(flow, device, BufferKind::kSource);
    for (BufferPlace& piece : hop.pieces) piece = builder_.stage(device, piece_bytes(flow));
    const auto& streams = parts_.at(device).streams;
    if (std::ranges::find(streams, flow.id, &FlowRole::flow)->stores_sum)
      hop.destination = payload_at(flow, device, BufferKind::kDestination);
  }

  static BufferPlace shifted(BufferPlace place, std::uint64_t bytes) {
    place.offset += bytes;
    return place;
  }

  /// Returns the piece size of a forwarded flow: whole elements of any type.
  std::uint64_t piece_bytes(const Flow& flow) const {
    constexpr std::uint64_t kLargestElement = 8;
    if (flow.kind == FlowKind::kDeliver)
      return std::max<std::uint64_t>(options_.relay_chunk_bytes, 1);
    return std::min(
        flow.bytes,
        std::max(options_.relay_chunk_bytes / kLargestElement, std::uint64_t{1}) * kLargestElement);
  }

  bool is_broadcast(const Flow& flow) const {
    return flow.kind == FlowKind::kDeliver && flow.edges.size() > 1 &&
           std::find(options_.broadcasts.begin(), options_.broadcasts.end(), group_of(flow)) !=
               options_.broadcasts.end();
  }

  /// Adds rounds, by communicator in the order of their first flow. Flows of one communicator go
  /// together.
  void add_rounds() {
    std::vector<CommunicatorGroup> order;
    std::map<CommunicatorGroup, std::vector<const Flow*>> broadcasts;
    std::vector<const Flow*> trees;
    std::size_t trees_at = 0;
    for (const Flow& flow : plan_.flows) {
      if (!is_broadcast(flow)) {
        if (trees.empty()) trees_at = order.size();
        trees.push_back(&flow);
        continue;
      }
      const CommunicatorGroup group = group_of(flow);
      if (!broadcasts.contains(group)) order.push_back(group);
      broadcasts[group].push_back(&flow);
    }
    for (std::size_t i = 0; i <= order.size(); ++i) {
      if (i == trees_at && !trees.empty()) add_trees(trees);
      if (i < order.size()) add_broadcasts(order[i], broadcasts.at(order[i]));
    }
  }

  void add_broadcasts(const CommunicatorGroup& group, const std::vector<const Flow*>& flows) {
    for (const Flow* flow : flows) {
      const std::uint32_t root = *group.rank_of(flow->root);
      for (const DeviceId device : group.devices) {
        CollectiveCall call{
            CallKind::kBroadcast, DType::kU8, ReduceOp::kSum, root, flow->bytes, {}, {}};
        (device == flow->root ? call.from : call.to) = places_.at({flow->id, device});
        builder_.call(device, group, next_round_, call);
      }
    }
    ++next_round_;
  }

  /// Adds one group of sends and receives if no flow is forwarded. Otherwise chunk c crosses its
  /// h-th hop in round c + h. A sum continues into the result that follows it.
  void add_trees(const std::vector<const Flow*>& flows) {
    std::map<std::uint32_t, std::vector<std::pair<const Flow*, std::pair<FlowEdge, std::uint64_t>>>>
        rounds;
    std::uint32_t end_of_sum = 0;
    for (const Flow* flow : flows) {
      const bool delivers = flow->kind == FlowKind::kDeliver;
      std::uint32_t deepest = flow->kind == FlowKind::kResult ? end_of_sum : 0;
      std::map<DeviceId, std::uint32_t> depth = {{flow->root, deepest}};
      for (const FlowEdge& edge : flow->edges)
        deepest = std::max(deepest, depth[edge.child] = depth.at(edge.parent) + 1);
      const std::uint64_t chunk = deepest > 1 || !delivers ? piece_bytes(*flow) : flow->bytes;
      end_of_sum = deepest;
      std::uint32_t index = 0;
      for (std::uint64_t begin = 0; begin < flow->bytes; begin += chunk, ++index) {
        for (const FlowEdge& edge : flow->edges)
          rounds[index + depth.at(edge.parent)].push_back({flow, {edge, begin}});
      }
      chunk_bytes_[flow->id] = chunk;
    }
    for (const auto& [index, messages] : rounds) {
      for (const auto& [flow, message] : messages)
        add_message(*flow, message.first, message.second, next_round_ + index);
      for (const auto& [flow, message] : messages) {
        if (flow->kind == FlowKind::kSum) add_term(*flow, message.first.child, message.second);
      }
    }
    next_round_ += rounds.rbegin()->first + 1;
  }

  void add_message(const Flow& flow, const FlowEdge& edge, std::uint64_t begin,
                   std::uint32_t round) {
    const std::uint64_t bytes = std::min(chunk_bytes_.at(flow.id), flow.bytes - begin);
    const FlowId sum(flow.kind == FlowKind::kResult ? flow.id.value() - 1 : flow.id.value());
    const auto whole_from = places_.find({flow.id, edge.parent});
    const BufferPlace from = whole_from != places_.end()
                                 ? shifted(whole_from->second, begin)
                                 : hops_.at({sum, edge.parent}).sum_at(begin, piece_bytes(flow));
    const BufferPlace to = flow.kind == FlowKind::kSum
                               ? hops_.at({sum, edge.child}).pieces[begin / piece_bytes(flow) % 2]
                               : shifted(places_.at({flow.id, edge.child}), begin);
    builder_.call(edge.parent, point_to_point_, round,
                  {CallKind::kSend, DType::kU8, ReduceOp::kSum, rank(edge.child), bytes, from, {}});
    builder_.call(
        edge.child, point_to_point_, round,
        {CallKind::kReceive, DType::kU8, ReduceOp::kSum, rank(edge.parent), bytes, {}, to});
  }

  /// Adds a device's own term to a piece that has arrived.
  void add_term(const Flow& flow, DeviceId device, std::uint64_t begin) {
    const SumHop& hop = hops_.at({flow.id, device});
    const std::uint64_t piece = piece_bytes(flow);
    builder_.sum(device, {hop.dtype,
                          std::min(piece, flow.bytes - begin) / size_of(hop.dtype),
                          {hop.pieces[begin / piece % 2], shifted(hop.term, begin)},
                          hop.sum_at(begin, piece)});
  }

  std::uint32_t rank(DeviceId device) const {
    const auto rank = point_to_point_.rank_of(device);
    if (!rank) {
      throw_error(ErrorCode::kInvalidArgument,
                  "device {} sends or receives, but is not in the communicator {} for that", device,
                  to_string(point_to_point_));
    }
    return *rank;
  }

  const ReshardPlan& plan_;
  const LoweringOptions& options_;
  CommunicatorGroup point_to_point_;
  std::map<DeviceId, DevicePart> parts_;
  OperationsBuilder builder_;
  std::map<std::pair<FlowId, DeviceId>, BufferPlace> places_;  ///< Places of the payload.
  std::map<std::pair<FlowId, DeviceId>, SumHop> hops_;         ///< Devices on chains of sums.
  std::map<DeviceId, std::vector<StridedCopy>> unpacking_;
  std::map<FlowId, std::uint64_t> chunk_bytes_;
  std::uint32_t next_round_ = 0;
};

}  // namespace

DeviceOperations LoweredTransfer::part(DeviceId device) const {
  const auto at = std::find_if(parts.begin(), parts.end(),
                               [&](const DeviceOperations& part) { return part.device == device; });
  if (at != parts.end()) return *at;
  DeviceOperations none;
  none.device = device;
  return none;
}

std::vector<CommunicatorGroup> LoweredTransfer::groups() const {
  std::set<CommunicatorGroup> groups;
  for (const DeviceOperations& part : parts) groups.insert(part.groups.begin(), part.groups.end());
  return {groups.begin(), groups.end()};
}

std::string to_string(const LoweredTransfer& lowered) {
  std::string text;
  for (const DeviceOperations& part : lowered.parts)
    text += (text.empty() ? "" : "\n") + to_string(part);
  return text;
}

CommunicatorGroup group_of(const Flow& flow) {
  std::vector<DeviceId> devices = {flow.root};
  for (const FlowEdge& edge : flow.edges) devices.push_back(edge.child);
  return CommunicatorGroup::of(std::move(devices));
}

LoweredTransfer lower(const ReshardPlan& plan, const LoweringOptions& options) {
  return ReshardLowering(plan, options).run();
}

}  // namespace weft::transfer
