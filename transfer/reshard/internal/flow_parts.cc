#include "transfer/reshard/internal/flow_parts.h"

#include <algorithm>
#include <utility>

namespace weft::transfer::internal {
namespace {

/// Smallest chunk, in bytes.
constexpr std::uint64_t kFineChunk = 56 * 1024;

/// Returns true if a host other than the root's forwards the flow to another host.
bool is_forwarded_further(const Flow& flow, const Topology& topology) {
  return std::any_of(flow.edges.begin(), flow.edges.end(), [&](const FlowEdge& edge) {
    const HostId from = topology.host_of(edge.parent);
    return from != topology.host_of(flow.root) && from != topology.host_of(edge.child);
  });
}

}  // namespace

std::vector<Flow> parts_of(const WeftProblem& problem, std::span<const Flow> flows,
                           std::span<const FlowPart> parts, bool fine) {
  std::vector<Flow> result;
  result.reserve(parts.size());
  for (const FlowPart& part : parts) {
    const Flow& whole = flows[part.flow];
    Flow flow = whole;
    flow.id = FlowId(result.size());
    flow.bytes = part.end - part.begin;
    for (FlowEdge& edge : flow.edges)
      if (edge.parent == whole.root) edge.parent = part.root;
    flow.root = part.root;
    if (fine && flow.chunk_bytes > kFineChunk && !problem.options.chunks &&
        is_forwarded_further(flow, problem.topology))
      flow.chunk_bytes = std::max(kFineChunk, whole.chunk_bytes / 3 / 64 * 64);
    flow.chunk_bytes = std::min(flow.chunk_bytes, flow.bytes);
    if (flow.bytes != whole.bytes && !whole.segments.empty())
      flow.segments = cut(whole.segments, part.begin, flow.bytes);
    result.push_back(std::move(flow));
  }
  return result;
}

std::vector<FlowPart> parts_of_runs(std::span<const FlowPart> atoms,
                                    std::span<const FlowRun> runs) {
  std::vector<FlowPart> parts;
  std::vector<FlowPart*> last(atoms.size());
  parts.reserve(runs.size());
  for (const FlowRun& run : runs) {
    const FlowPart& atom = atoms[run.flow];
    FlowPart part{atom.flow, run.root, atom.begin, atom.end};
    if (FlowPart* before = last[run.flow]; before != nullptr) {
      part.begin += static_cast<std::uint64_t>(run.begin) / kCutAlignment * kCutAlignment;
      if (part.begin <= before->begin) continue;
      before->end = part.begin;
    }
    last[run.flow] = &parts.emplace_back(part);
  }
  return parts;
}

}  // namespace weft::transfer::internal
