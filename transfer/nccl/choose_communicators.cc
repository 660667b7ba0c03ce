#include "transfer/nccl/choose_communicators.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"

namespace weft::transfer {
namespace {

/// Set of communicators, limited in number for each member.
class CommunicatorBudget {
 public:
  explicit CommunicatorBudget(std::size_t max_per_device) : max_(max_per_device) {}

  /// Adds a group if all its members have room. Returns true if the set contains it afterwards.
  bool add(const CommunicatorGroup& group) {
    if (groups_.contains(group)) return true;
    for (const DeviceId device : group.devices) {
      if (used_[device] >= max_) return false;
    }
    for (const DeviceId device : group.devices) ++used_[device];
    groups_.insert(group);
    return true;
  }

 private:
  std::size_t max_;
  std::set<CommunicatorGroup> groups_;
  std::map<DeviceId, std::size_t> used_;
};

CommunicatorGroup ranks_of(const CollectivePlan& plan) {
  std::vector<DeviceId> devices;
  for (const CollectivePlan::Rank& rank : plan.ranks) devices.push_back(rank.device);
  return CommunicatorGroup::of(std::move(devices));
}

bool add_collectives(std::span<const ProgramTransfer> transfers, CommunicatorBudget& budget) {
  return std::all_of(transfers.begin(), transfers.end(), [&](const ProgramTransfer& transfer) {
    const auto* plan = std::get_if<const CollectivePlan*>(&transfer.plan);
    return plan == nullptr || (*plan)->ranks.size() < 2 || budget.add(ranks_of(**plan));
  });
}

/// Returns, by op, the devices of each resharding that sends something.
std::map<std::uint32_t, CommunicatorGroup> reshard_groups(
    std::span<const ProgramTransfer> transfers) {
  std::map<std::uint32_t, CommunicatorGroup> result;
  for (const ProgramTransfer& transfer : transfers) {
    const auto* plan = std::get_if<const ReshardPlan*>(&transfer.plan);
    if (plan != nullptr && !(*plan)->flows.empty())
      result[transfer.op] = CommunicatorGroup::of((*plan)->devices());
  }
  return result;
}

bool add_all(const std::map<std::uint32_t, CommunicatorGroup>& groups, CommunicatorBudget& budget) {
  return std::all_of(groups.begin(), groups.end(),
                     [&](const auto& entry) { return budget.add(entry.second); });
}

/// Returns the groups that could use a broadcast, with the bytes per step that it saves the root
/// and the relays, in descending order of bytes.
std::vector<std::pair<std::uint64_t, CommunicatorGroup>> broadcasts_by_gain(
    std::span<const ProgramTransfer> transfers) {
  std::map<CommunicatorGroup, std::uint64_t> gains;
  for (const ProgramTransfer& transfer : transfers) {
    const auto* plan = std::get_if<const ReshardPlan*>(&transfer.plan);
    if (plan == nullptr) continue;
    for (const Flow& flow : (*plan)->flows) {
      if (flow.edges.size() > 1 && flow.kind == FlowKind::kDeliver)
        gains[group_of(flow)] += flow.bytes * (flow.edges.size() - 1) * transfer.repeats;
    }
  }
  std::vector<std::pair<std::uint64_t, CommunicatorGroup>> result;
  for (const auto& [group, gain] : gains) result.emplace_back(gain, group);
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return result;
}

LoweredTransfer lower_one(const ProgramTransfer& transfer, const CommunicatorChoice& choice,
                          LoweringOptions options) {
  if (const auto* plan = std::get_if<const CollectivePlan*>(&transfer.plan))
    return lower(**plan, options);
  const auto group = choice.point_to_point.find(transfer.op);
  options.point_to_point =
      group == choice.point_to_point.end() ? CommunicatorGroup{} : group->second;
  options.broadcasts = choice.broadcasts;
  return lower(*std::get<const ReshardPlan*>(transfer.plan), options);
}

}  // namespace

CommunicatorChoice choose_communicators(std::span<const ProgramTransfer> transfers,
                                        std::size_t max_per_device) {
  CommunicatorChoice choice;
  choice.point_to_point = reshard_groups(transfers);
  CommunicatorBudget budget(max_per_device);
  if (!add_collectives(transfers, budget) || !add_all(choice.point_to_point, budget)) {
    std::vector<DeviceId> all;
    for (const auto& [op, group] : choice.point_to_point)
      all.insert(all.end(), group.devices.begin(), group.devices.end());
    const CommunicatorGroup all_devices = CommunicatorGroup::of(std::move(all));
    for (auto& [op, group] : choice.point_to_point) group = all_devices;
    budget = CommunicatorBudget(max_per_device);
    if (!add_collectives(transfers, budget) || !add_all(choice.point_to_point, budget)) {
      throw_error(ErrorCode::kResourceExhausted,
                  "a device needs more than {} communicators: one per group of its collectives and "
                  "one for sends and receives; raise the limit, or cut meshes along fewer axes",
                  max_per_device);
    }
  }
  for (const auto& [gain, group] : broadcasts_by_gain(transfers)) {
    if (budget.add(group)) choice.broadcasts.push_back(group);
  }
  std::sort(choice.broadcasts.begin(), choice.broadcasts.end());
  std::set<CommunicatorGroup> used;
  for (const ProgramTransfer& transfer : transfers) {
    const auto groups = lower_one(transfer, choice, {}).groups();
    used.insert(groups.begin(), groups.end());
  }
  choice.groups.assign(used.begin(), used.end());
  return choice;
}

std::map<std::uint32_t, LoweredTransfer> lower_program(std::span<const ProgramTransfer> transfers,
                                                       const CommunicatorChoice& choice,
                                                       const LoweringOptions& options) {
  std::map<std::uint32_t, LoweredTransfer> lowered;
  for (const ProgramTransfer& transfer : transfers)
    lowered.emplace(transfer.op, lower_one(transfer, choice, options));
  return lowered;
}

}  // namespace weft::transfer
