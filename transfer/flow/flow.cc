#include "transfer/flow/flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/base/units.h"

namespace weft::transfer {
namespace {

bool is_forwarded(const Flow& flow) {
  return std::any_of(flow.edges.begin(), flow.edges.end(), [&](const FlowEdge& edge) { return edge.parent != flow.root; });
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

std::string to_string(const Flow& flow) {
  std::string text = fmt::format("flow {} {} {}:", flow.id, to_string(flow.region), format_bytes(flow.bytes));
  for (const FlowEdge& edge : flow.edges) text += fmt::format(" {}->{}", edge.parent, edge.child);
  const std::uint64_t chunks = (flow.bytes + flow.chunk_bytes - 1) / flow.chunk_bytes;
  text +=
      fmt::format(", {} chunk{} of {}, window {}", chunks, chunks == 1 ? "" : "s", format_bytes(flow.chunk_bytes), flow.window);
  if (flow.kind == FlowKind::kContribution) text += " (contribution)";
  if (flow.kind == FlowKind::kResult) text += " (result)";
  return text;
}

void set_chunks(Flow& flow, std::size_t element_size, const ChunkOptions& options) {
  if (options.chunk_bytes < 64 || options.direct_chunk_bytes < 64 || options.window == 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "chunks of {} and {} bytes, window {}: a chunk has at least 64 bytes and a window one chunk", options.chunk_bytes,
                options.direct_chunk_bytes, options.window);
  }
  flow.bytes = static_cast<std::uint64_t>(flow.region.num_elements()) * element_size;
  flow.window = options.window;
  const std::uint64_t limit = is_forwarded(flow) ? options.chunk_bytes : options.direct_chunk_bytes;
  // A row: everything inside the outermost dimension that is wider than one.
  std::size_t outer = 0;
  while (outer < flow.region.rank() && flow.region[outer].size() == 1) ++outer;
  std::uint64_t row = element_size;
  for (std::size_t i = outer + 1; i < flow.region.rank(); ++i) row *= static_cast<std::uint64_t>(flow.region[i].size());
  std::uint64_t unit = std::lcm<std::uint64_t>(64, element_size);
  if (row <= limit) unit = std::lcm(row, unit) <= limit ? std::lcm(row, unit) : row;
  const std::uint64_t chunks = (flow.bytes + limit - 1) / limit;
  flow.chunk_bytes = round_up((flow.bytes + chunks - 1) / chunks, unit);
  if (flow.chunk_bytes > limit && limit >= unit) flow.chunk_bytes = limit / unit * unit;
  flow.chunk_bytes = std::min(flow.chunk_bytes, flow.bytes);
}

}  // namespace weft::transfer
