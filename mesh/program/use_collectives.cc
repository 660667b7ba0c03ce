#include "mesh/program/use_collectives.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "transfer/nccl/choose_communicators.h"
#include "transfer/nccl/operation_order.h"

namespace weft::mesh {
namespace {

using Plan = std::variant<const transfer::ReshardPlan*, const transfer::CollectivePlan*>;

std::map<std::uint32_t, Plan> plans_of(const Compiled& step) {
  std::map<std::uint32_t, Plan> plans;
  for (const PlannedEdge& edge : step.edges) plans.emplace(edge.op, &edge.plan);
  for (const TermTransfer& term : step.terms) plans.emplace(term.op, &term.plan);
  for (const InMeshTransfer& transfer : step.in_mesh)
    std::visit([&](const auto& plan) { plans.emplace(transfer.op, &plan); }, transfer.plan);
  return plans;
}

std::vector<transfer::DeviceId> devices_of(const Plan& plan) {
  if (const auto* reshard = std::get_if<const transfer::ReshardPlan*>(&plan))
    return (*reshard)->devices();
  std::vector<transfer::DeviceId> devices;
  for (const auto& rank : std::get<const transfer::CollectivePlan*>(plan)->ranks)
    devices.push_back(rank.device);
  return devices;
}

transfer::PathChoice path_of(const Plan& plan,
                             std::span<const transfer::DeviceCapabilities> places) {
  std::vector<transfer::DeviceCapabilities> ends;
  for (const transfer::DeviceId device : devices_of(plan)) {
    transfer::DeviceCapabilities unknown;
    unknown.device = device;
    ends.push_back(device.value() < places.size() ? places[device.value()] : unknown);
  }
  return transfer::choose_path(ends);
}

/// Returns the executions per step of each op.
std::map<std::uint32_t, std::uint64_t> executions_of(const Compiled& step) {
  std::map<std::uint32_t, std::set<std::int32_t>> microbatches;
  for (const Program& program : step.programs) {
    for (const Instruction& instruction : program.instructions) {
      if (const auto* start = std::get_if<Start>(&instruction))
        microbatches[program.transfers[start->transfer].op].insert(start->microbatch);
    }
  }
  std::map<std::uint32_t, std::uint64_t> executions;
  for (const auto& [op, of_op] : microbatches) executions[op] = of_op.size();
  return executions;
}

/// Returns a device's operations of a transfer. A device without operations still lists its
/// buffers.
transfer::DeviceOperations operations_of(const transfer::LoweredTransfer& lowered,
                                         const transfer::DevicePart& part) {
  transfer::DeviceOperations operations = lowered.part(part.device);
  for (const transfer::FlowRole& stream : part.streams) {
    for (const transfer::DeviceId child : stream.children)
      operations.sent.push_back({child, stream.bytes});
  }
  operations.received = part.bytes_received();
  if (!operations.empty()) return operations;
  for (const transfer::TensorPart& tensor : part.tensors) {
    operations.source_bytes.push_back(tensor.source_bytes());
    operations.destination_bytes.push_back(tensor.destination_bytes());
  }
  return operations;
}

/// Returns the timeline of a program. All ops have equal length, as only the order matters.
transfer::DeviceTimeline timeline_of(const Program& program) {
  transfer::DeviceTimeline timeline{program.device, {}};
  std::vector<transfer::OperationKey> keys(program.num_handles);
  for (const Instruction& instruction : program.instructions) {
    if (const auto* start = std::get_if<Start>(&instruction)) {
      keys[start->handle] = {program.transfers[start->transfer].op, start->microbatch};
      timeline.steps.emplace_back(transfer::TimelineStart{keys[start->handle]});
    } else if (const auto* wait = std::get_if<Wait>(&instruction)) {
      timeline.steps.emplace_back(transfer::TimelineWait{keys[wait->handle]});
    } else if (std::holds_alternative<Run>(instruction)) {
      timeline.steps.emplace_back(transfer::TimelineWork{1});
    }
  }
  return timeline;
}

void order_operations(Compiled& step, const std::set<std::uint32_t>& ops) {
  std::vector<transfer::DeviceTimeline> timelines;
  for (const Program& program : step.programs) timelines.push_back(timeline_of(program));
  const std::vector<transfer::OperationKey> order = transfer::total_order(timelines);
  for (std::size_t i = 0; i < timelines.size(); ++i)
    step.programs[i].collective_order = transfer::order_of_device(order, timelines[i], ops);
}

/// Numbering of the transfers of several steps: the numbers of step s follow those of earlier
/// steps.
class Numbering {
 public:
  explicit Numbering(std::span<Compiled* const> steps) {
    std::uint32_t next = 0;
    for (const Compiled* step : steps) {
      first_.push_back(next);
      next += step->num_transfer_ops;
    }
  }
  std::uint32_t number(std::size_t step, std::uint32_t op) const { return first_[step] + op; }

 private:
  std::vector<std::uint32_t> first_;
};

}  // namespace

CollectiveAssignment use_device_collectives(std::span<Compiled* const> steps,
                                            std::span<const transfer::DeviceCapabilities> places,
                                            const CollectiveUseOptions& options) {
  CollectiveAssignment use;
  use.staged.resize(steps.size());
  const Numbering numbering(steps);
  std::vector<transfer::ProgramTransfer> transfers;
  std::vector<std::set<std::uint32_t>> ops(steps.size());
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const auto executions = executions_of(*steps[s]);
    for (const auto& [op, plan] : plans_of(*steps[s])) {
      const auto repeats = executions.find(op);
      if (repeats == executions.end()) continue;
      if (const transfer::PathChoice choice = path_of(plan, places);
          choice.path == transfer::PathChoice::Path::kHostStaged) {
        use.staged[s][op] = choice.reason;
        continue;
      }
      transfers.push_back({numbering.number(s, op), plan, repeats->second});
      ops[s].insert(op);
      if (use.library.empty()) use.library = places[devices_of(plan).front().value()].library;
    }
  }
  transfer::CommunicatorChoice choice;
  try {
    choice = transfer::choose_communicators(transfers, options.max_communicators);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResourceExhausted) throw;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      for (const std::uint32_t op : ops[s]) use.staged[s][op] = error.message();
    }
    use.library.clear();
    return use;
  }
  use.groups = choice.groups;
  const auto lowered =
      transfer::lower_program(transfers, choice, {.deterministic = options.deterministic});
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (Program& program : steps[s]->programs) {
      for (Transfer& transfer : program.transfers) {
        if (!ops[s].contains(transfer.op)) continue;
        transfer.device_work =
            operations_of(lowered.at(numbering.number(s, transfer.op)), *transfer.engine_share());
      }
    }
    if (!ops[s].empty()) order_operations(*steps[s], ops[s]);
  }
  return use;
}

}  // namespace weft::mesh
