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
  return std::any_of(flow.edges.begin(), flow.edges.end(),
                     [&](const FlowEdge& edge) { return edge.parent != flow.root; });
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Returns the bytes of everything inside the outermost dimension that is wider than one.
std::uint64_t row_bytes(const Region& region, std::size_t element_size) {
  std::size_t outer = 0;
  while (outer < region.rank() && region[outer].size() == 1) ++outer;
  std::uint64_t row = element_size;
  for (std::size_t i = outer + 1; i < region.rank(); ++i) row *= region[i].size();
  return row;
}

}  // namespace

Segment Segment::whole(std::uint32_t tensor, const Region& region, std::size_t element_size) {
  return {tensor, region, 0, region.num_elements() * element_size};
}

std::string to_string(const Segment& segment) {
  std::string text = segment.tensor == 0 ? "" : fmt::format("tensor {} ", segment.tensor);
  text += to_string(segment.region);
  if (segment.begin != 0) text += fmt::format(" from byte {}", segment.begin);
  return text;
}

std::string to_string(const std::vector<Segment>& segments) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(segments.size(), kShown); ++i)
    text += (i == 0 ? "" : " + ") + to_string(segments[i]);
  if (segments.size() > kShown) text += fmt::format(" and {} more", segments.size() - kShown);
  return text;
}

std::string to_string(const Flow& flow) {
  std::string text =
      fmt::format("flow {} {} {}:", flow.id, to_string(flow.segments), format_bytes(flow.bytes));
  for (const FlowEdge& edge : flow.edges) text += fmt::format(" {}->{}", edge.parent, edge.child);
  const std::uint64_t chunks = (flow.bytes + flow.chunk_bytes - 1) / flow.chunk_bytes;
  text += fmt::format(", {} chunk{} of {}, window {}", chunks, chunks == 1 ? "" : "s",
                      format_bytes(flow.chunk_bytes), flow.window);
  if (flow.kind == FlowKind::kContribution) text += " (contribution)";
  if (flow.kind == FlowKind::kResult) text += " (result)";
  if (flow.kind == FlowKind::kSum) text += " (partial sums)";
  return text;
}

void set_chunks(Flow& flow, std::size_t element_size, const ChunkOptions& options) {
  if (options.chunk_bytes < 64 || options.direct_chunk_bytes < 64 || options.window == 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "chunks of {} and {} bytes, window {}: a chunk has at least 64 bytes and a window "
                "one chunk",
                options.chunk_bytes, options.direct_chunk_bytes, options.window);
  }
  if (flow.segments.empty())
    throw_error(ErrorCode::kInvalidArgument, "flow {} has no segments; a flow needs at least one",
                flow.id);
  flow.bytes = 0;
  for (const Segment& segment : flow.segments) flow.bytes += segment.bytes;
  flow.window = options.window;
  // Cuts the flow into a few chunks at least, so that packing, sending and unpacking overlap.
  const std::uint64_t direct =
      std::min(options.direct_chunk_bytes, std::max<std::uint64_t>(flow.bytes / 4, 256 * 1024));
  const std::uint64_t limit = is_forwarded(flow) ? options.chunk_bytes : direct;
  std::uint64_t unit = std::lcm<std::uint64_t>(64, element_size);
  const std::uint64_t row = row_bytes(flow.segments.front().region, element_size);
  const bool whole_rows = flow.segments.size() == 1 && flow.segments.front().begin % row == 0;
  if (whole_rows && row <= limit) unit = std::lcm(row, unit) <= limit ? std::lcm(row, unit) : row;
  const std::uint64_t chunks = (flow.bytes + limit - 1) / limit;
  flow.chunk_bytes = round_up((flow.bytes + chunks - 1) / chunks, unit);
  if (flow.chunk_bytes > limit && limit >= unit) flow.chunk_bytes = limit / unit * unit;
  flow.chunk_bytes = std::min(flow.chunk_bytes, flow.bytes);
}

}  // namespace weft::transfer
