#include "transfer/flow/device_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/units.h"

namespace weft::transfer {
namespace {

/// Formats a tensor, such as "f32 from [0:4,0:8] to [0:2,0:8]".
std::string describe(const TensorPart& tensor) {
  std::string text(to_string(tensor.dtype));
  if (tensor.source) text += " from " + to_string(*tensor.source);
  if (tensor.destination) text += " to " + to_string(*tensor.destination);
  return text;
}

/// Formats a stream, such as "flow 3 [0:4,0:8] 128 B from 1 to 2,4".
std::string describe(const FlowRole& stream) {
  std::string text = fmt::format("flow {} {} {}", stream.flow, to_string(stream.segments),
                                 format_bytes(stream.bytes));
  if (stream.parent) text += fmt::format(" from {}", *stream.parent);
  if (!stream.children.empty()) text += fmt::format(" to {}", fmt::join(stream.children, ","));
  if (stream.kind == FlowKind::kContribution) text += fmt::format(" (term {})", stream.rank);
  if (stream.kind == FlowKind::kResult) text += " (result)";
  if (stream.adds_own_term()) text += " (adds its term)";
  if (stream.result) text += fmt::format(" as flow {}", *stream.result);
  if (stream.stores_sum) text += " and keeps the sum";
  return text;
}

std::string describe(const Reduction& reduction) {
  return fmt::format("{} {} of {} terms, own {}", reduction.op == ReduceOp::kSum ? "sum" : "max",
                     to_string(reduction.region), reduction.num_ranks, reduction.own_rank);
}

}  // namespace

std::size_t TensorPart::source_bytes() const {
  return source ? (source->num_elements()) * size_of(dtype) : 0;
}

std::size_t TensorPart::destination_bytes() const {
  return destination ? (destination->num_elements()) * size_of(dtype) : 0;
}

bool DevicePart::has_buffers() const {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorPart& tensor) { return tensor.source || tensor.destination; });
}

std::uint64_t DevicePart::bytes_sent() const {
  std::uint64_t bytes = 0;
  for (const FlowRole& stream : streams) bytes += stream.bytes * stream.children.size();
  return bytes;
}

std::uint64_t DevicePart::bytes_received() const {
  std::uint64_t bytes = 0;
  for (const FlowRole& stream : streams) bytes += stream.parent ? stream.bytes : 0;
  return bytes;
}

std::vector<DeviceId> DevicePart::peers() const {
  std::set<DeviceId> devices;
  for (const FlowRole& stream : streams) {
    if (stream.parent) devices.insert(*stream.parent);
    devices.insert(stream.children.begin(), stream.children.end());
  }
  return {devices.begin(), devices.end()};
}

std::string to_string(const DevicePart& part) {
  std::string text = fmt::format("device {}", part.device);
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    const TensorPart& tensor = part.tensors[i];
    if (!tensor.source && !tensor.destination) continue;
    if (part.tensors.size() > 1) text += fmt::format("\n  tensor {}", i);
    text += " " + describe(tensor);
  }
  for (const TensorCopy& copy : part.copies)
    text += "\n  copy " + to_string(Segment{copy.tensor, copy.region, 0, 0});
  for (const FlowRole& stream : part.streams) text += "\n  " + describe(stream);
  for (const Reduction& reduction : part.reductions) text += "\n  " + describe(reduction);
  return text;
}

std::vector<FlowRole> flow_roles_of(const std::vector<Flow>& flows, DeviceId device) {
  std::vector<FlowRole> streams;
  const auto is_its = [device](const FlowEdge& edge) {
    return edge.child == device || edge.parent == device;
  };
  for (const Flow& flow : flows) {
    // Skips other devices' flows before copying anything: a plan may have very many.
    if (std::ranges::none_of(flow.edges, is_its)) continue;
    if (flow.kind == FlowKind::kResult && flow.root == device && !streams.empty() &&
        streams.back().adds_own_term() && streams.back().flow.value() + 1 == flow.id.value()) {
      FlowRole& sum = streams.back();
      sum.result = flow.id;
      for (const FlowEdge& edge : flow.edges) {
        if (edge.parent == device) sum.children.push_back(edge.child);
      }
      continue;
    }
    FlowRole stream{flow.id,    flow.kind,        flow.segments, {}, {},
                    flow.bytes, flow.chunk_bytes, flow.window,   0,  0};
    for (const FlowEdge& edge : flow.edges) {
      if (edge.child == device) stream.parent = edge.parent;
      if (edge.parent == device) stream.children.push_back(edge.child);
    }
    streams.push_back(std::move(stream));
  }
  std::sort(streams.begin(), streams.end(),
            [](const FlowRole& a, const FlowRole& b) { return a.flow < b.flow; });
  return streams;
}

}  // namespace weft::transfer
