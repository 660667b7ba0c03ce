#include "transfer/nccl/internal/operations_builder.h"

#include <algorithm>

#include "core/base/check.h"

namespace weft::transfer {

void OperationsBuilder::add_device(DeviceId device, const std::vector<TensorPart>& tensors) {
  DeviceOperations& part = parts_[device];
  part.device = device;
  for (const TensorPart& tensor : tensors) {
    part.source_bytes.push_back(tensor.source_bytes());
    part.destination_bytes.push_back(tensor.destination_bytes());
  }
}

BufferPlace OperationsBuilder::stage(DeviceId device, std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 256;
  DeviceOperations& part = parts_.at(device);
  const BufferPlace place{BufferKind::kStaging, 0, part.staging_bytes};
  part.staging_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return place;
}

void OperationsBuilder::copy(DeviceId device, StridedCopy copy) {
  if (copy.from == copy.to) return;
  std::vector<OperationStep>& steps = parts_.at(device).steps;
  if (steps.empty() || !std::holds_alternative<CopyStep>(steps.back()))
    steps.emplace_back(CopyStep{});
  std::get<CopyStep>(steps.back()).copies.push_back(std::move(copy));
}

void OperationsBuilder::call(DeviceId device, const CommunicatorGroup& group, std::uint32_t round,
                             const CollectiveCall& call) {
  DeviceOperations& part = parts_.at(device);
  auto at = std::find(part.groups.begin(), part.groups.end(), group);
  if (at == part.groups.end()) at = part.groups.insert(at, group);
  const std::uint32_t index = at - part.groups.begin();
  auto* last = part.steps.empty() ? nullptr : std::get_if<RoundStep>(&part.steps.back());
  if (last == nullptr || last->number != round) {
    part.steps.emplace_back(RoundStep{index, round, {}});
    last = &std::get<RoundStep>(part.steps.back());
  }
  WEFT_CHECK(last->group == index, "round {} of device {} uses two communicators", round, device);
  last->calls.push_back(call);
}

void OperationsBuilder::sum(DeviceId device, SumStep sum) {
  parts_.at(device).steps.emplace_back(std::move(sum));
}

LoweredTransfer OperationsBuilder::finish() && {
  LoweredTransfer lowered;
  for (auto& [device, part] : parts_) {
    if (!part.empty()) lowered.parts.push_back(std::move(part));
  }
  return lowered;
}

}  // namespace weft::transfer
