#include "transfer/nccl/device_operations.h"

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/units.h"

namespace weft::transfer {
namespace {

std::string place_text(const BufferPlace& place) {
  switch (place.kind) {
    case BufferKind::kSource: return fmt::format("source {}+{}", place.tensor, place.offset);
    case BufferKind::kDestination:
      return fmt::format("destination {}+{}", place.tensor, place.offset);
    case BufferKind::kStaging: return fmt::format("staging+{}", place.offset);
  }
  WEFT_CHECK(false, "buffer {}", static_cast<int>(place.kind));
}

std::string call_text(const CollectiveCall& call, int own_rank) {
  std::string text =
      fmt::format("{} {} {}", to_string(call.kind), call.count, to_string(call.dtype));
  const bool root = call.kind == CallKind::kBroadcast && static_cast<int>(call.peer) == own_rank;
  const bool reads = call.kind != CallKind::kReceive && (call.kind != CallKind::kBroadcast || root);
  const bool writes = call.kind != CallKind::kSend && !root;
  if (reads) text += " of " + place_text(call.from);
  if (writes) text += " to " + place_text(call.to);
  if (call.kind == CallKind::kSend) text += fmt::format(" for rank {}", call.peer);
  if (call.kind == CallKind::kReceive || (call.kind == CallKind::kBroadcast && !root))
    text += fmt::format(" from rank {}", call.peer);
  return text;
}

}  // namespace

std::uint64_t DeviceOperations::bytes_sent() const {
  std::uint64_t sum = 0;
  for (const SentBytes& to : sent) sum += to.bytes;
  return sum;
}

std::uint64_t StridedCopy::bytes() const {
  std::uint64_t bytes = run_bytes;
  for (const Dimension& dimension : outer) bytes *= dimension.count;
  return bytes;
}

std::string_view to_string(CallKind kind) {
  switch (kind) {
    case CallKind::kBroadcast: return "broadcast";
    case CallKind::kSend: return "send";
    case CallKind::kReceive: return "receive";
    case CallKind::kAllReduce: return "all-reduce";
    case CallKind::kReduceScatter: return "reduce-scatter";
    case CallKind::kAllGather: return "all-gather";
  }
  WEFT_CHECK(false, "call {}", static_cast<int>(kind));
}

std::string to_string(const DeviceOperations& operations) {
  std::string text = fmt::format("device {}, {} of staging", operations.device,
                                 format_bytes(operations.staging_bytes));
  for (const OperationStep& step : operations.steps) {
    if (const auto* copies = std::get_if<CopyStep>(&step)) {
      for (const StridedCopy& copy : copies->copies)
        text += fmt::format("\n  copy {} B of {} to {}", copy.bytes(), place_text(copy.from),
                            place_text(copy.to));
    } else if (const auto* round = std::get_if<RoundStep>(&step)) {
      const CommunicatorGroup& group = operations.groups.at(round->group);
      text += fmt::format("\n  round {} on {}:", round->number, to_string(group));
      for (std::size_t i = 0; i < round->calls.size(); ++i)
        text += (i == 0 ? " " : "; ") +
                call_text(round->calls[i], group.rank_of(operations.device).value_or(-1));
    } else {
      const auto& sum = std::get<SumStep>(step);
      text += fmt::format("\n  sum of {} terms of {} {} to {}", sum.terms.size(), sum.count,
                          to_string(sum.dtype), place_text(sum.to));
    }
  }
  return text;
}

}  // namespace weft::transfer
