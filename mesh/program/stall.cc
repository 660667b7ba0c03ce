#include "mesh/program/stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace weft::mesh {
namespace {

using Key = std::pair<std::uint32_t, int>;  // op, microbatch

/// Transfer that a device waits for.
struct AwaitedTransfer {
  Key key;
  std::string transfer;
  std::vector<std::size_t> missing;  ///< Programs that take part and have not started it.
};

/// Returns the transfer of the Wait at this instruction; nothing if it is no Wait.
std::optional<Key> awaited_at(const Program& program, std::size_t at) {
  const auto* wait =
      at < program.instructions.size() ? std::get_if<Wait>(&program.instructions[at]) : nullptr;
  if (wait == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < at; ++i) {
    const auto* start = std::get_if<Start>(&program.instructions[i]);
    if (start != nullptr && start->handle == wait->handle)
      return Key(program.transfers[start->transfer].op, start->microbatch);
  }
  return std::nullopt;
}

std::string transfer_name(const Program& program, const Key& key) {
  const auto transfer = std::ranges::find(program.transfers, key.first, &Transfer::op);
  std::string name = "'" + transfer->name + "'";
  if (key.second >= 0) name += fmt::format(" of microbatch {}", key.second);
  return name;
}

/// Returns words such as "backward of microbatch 2".
std::string name_in_words(const BeginAction& begin) {
  const std::string of =
      begin.microbatch >= 0 ? fmt::format(" of microbatch {}", begin.microbatch) : "";
  return std::string(name_in_words(begin.kind)) + of;
}

/// Actions of a program that run interleaved, or one that runs alone.
struct ActionGroup {
  std::vector<const BeginAction*> members;
  std::size_t begin = 0;           ///< Instruction at which the first one begins.
  std::vector<std::size_t> marks;  ///< Instructions at which one begins or goes on.
};

/// Returns the groups in order. An S that goes on amid other actions is a group of its own there.
std::vector<ActionGroup> action_groups(const Program& program) {
  using ActionKey = std::tuple<int, ActionKind, int>;
  std::vector<ActionGroup> groups;
  std::map<ActionKey, std::size_t> group_of;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* begin = std::get_if<BeginAction>(&program.instructions[i]);
    if (begin == nullptr) continue;
    const ActionKey key(begin->stage, begin->kind, begin->microbatch);
    const auto known = group_of.find(key);
    const bool goes_on = known != group_of.end() && !is_vocabulary_pass(begin->kind);
    if (!goes_on) {
      group_of[key] = groups.size();
      groups.push_back({{begin}, i, {i}});
      continue;
    }
    // Actions that began meanwhile run interleaved with it.
    const std::size_t first = known->second;
    for (std::size_t g = first + 1; g < groups.size();) {
      if (is_vocabulary_pass(groups[g].members.front()->kind)) {
        ++g;
        continue;
      }
      for (const BeginAction* member : groups[g].members) {
        groups[first].members.push_back(member);
        group_of[{member->stage, member->kind, member->microbatch}] = first;
      }
      std::ranges::copy(groups[g].marks, std::back_inserter(groups[first].marks));
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
    }
    groups[first].marks.push_back(i);
  }
  return groups;
}

std::string name_in_words(const ActionGroup& group) {
  std::string text;
  for (const BeginAction* member : group.members) {
    text += (text.empty() ? "" : " and ") + name_in_words(*member);
    if (member->stage != group.members.front()->stage)
      text += fmt::format(" of stage {}", member->stage);
  }
  return text;
}

/// Describes the action that a device is in, or the actions that it runs interleaved, and the next.
std::string actions_at(const Program& program, std::size_t at) {
  const std::vector<ActionGroup> groups = action_groups(program);
  const ActionGroup* now = nullptr;
  const ActionGroup* then = nullptr;
  std::size_t last_mark = 0;
  for (const ActionGroup& group : groups) {
    if (group.begin > at && then == nullptr) then = &group;
    for (const std::size_t mark : group.marks) {
      if (mark > at || mark < last_mark) continue;
      now = &group;
      last_mark = mark;
    }
  }
  const auto stage_of = [](const ActionGroup* group) { return group->members.front()->stage; };
  const std::string next = then == nullptr ? "the end of the step"
                           : now != nullptr && stage_of(now) == stage_of(then)
                               ? name_in_words(*then)
                               : fmt::format("{}, stage {}", name_in_words(*then), stage_of(then));
  return now == nullptr
             ? fmt::format("at the beginning (next: {})", next)
             : fmt::format("in stage {}, {} (next: {})", stage_of(now), name_in_words(*now), next);
}

/// Returns the other devices that take part in the transfer.
std::vector<transfer::DeviceId> partners(const Program& program, const Key& key) {
  const auto transfer = std::ranges::find(program.transfers, key.first, &Transfer::op);
  if (const auto* part = transfer->engine_share()) return part->peers();
  std::set<transfer::DeviceId> with;
  for (const transfer::CommunicatorGroup& group : transfer->library_share()->groups)
    with.insert(group.devices.begin(), group.devices.end());
  with.erase(program.device);
  return {with.begin(), with.end()};
}

class Stall {
 public:
  Stall(const std::vector<Program>& programs, const std::vector<std::optional<std::size_t>>& next,
        const std::vector<std::optional<transfer::OperationKey>>& collectives)
      : programs_(programs), next_(next), collectives_(collectives) {
    for (std::size_t p = 0; p < programs.size(); ++p) {
      for (std::size_t i = 0; i < programs[p].instructions.size(); ++i) {
        if (const auto* start = std::get_if<Start>(&programs[p].instructions[i])) {
          starts_[{programs[p].transfers[start->transfer].op, start->microbatch}].emplace_back(p,
                                                                                               i);
        }
      }
    }
  }

  std::string text() const {
    std::string text;
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      if (!finished(p)) text += "\n  " + line(p);
    }
    return text + describe_cause();
  }

 private:
  bool finished(std::size_t p) const {
    return next_[p] && *next_[p] >= programs_[p].instructions.size() && !collective(p);
  }
  /// Returns the transfer at which the device's collectives stand.
  std::optional<Key> collective(std::size_t p) const {
    if (p >= collectives_.size() || !collectives_[p]) return std::nullopt;
    const Key key{collectives_[p]->op, collectives_[p]->microbatch};
    return starts_.contains(key) ? std::optional(key) : std::nullopt;
  }

  std::optional<AwaitedTransfer> awaited(std::size_t p) const {
    if (!next_[p] || finished(p)) return std::nullopt;
    const Program& program = programs_[p];
    if (const auto key = collective(p)) return awaited_transfer(p, *key);
    const auto key = awaited_at(program, *next_[p]);
    return key ? std::optional(awaited_transfer(p, *key)) : std::nullopt;
  }

  AwaitedTransfer awaited_transfer(std::size_t p, const Key& key) const {
    AwaitedTransfer result{key, transfer_name(programs_[p], key), {}};
    for (const auto& [other, at] : starts_.at(key)) {
      if (!next_[other] || *next_[other] <= at) result.missing.push_back(other);
    }
    return result;
  }

  std::string actions(std::size_t p) const { return actions_at(programs_[p], *next_[p]); }

  std::string names(const std::vector<std::size_t>& devices) const {
    std::string text;
    for (const std::size_t device : devices)
      text += (text.empty() ? "" : ", ") + programs_[device].device_name;
    return text;
  }

  std::string line(std::size_t p) const {
    const std::string& name = programs_[p].device_name;
    if (!next_[p]) return name + " does not respond";
    const std::optional<AwaitedTransfer> at = awaited(p);
    if (!at) return fmt::format("{} is {}: it runs, or is blocked inside an op", name, actions(p));
    if (at->missing.empty()) {
      return fmt::format(
          "{} is {}: waits for {}, which all its devices have started: its bytes are in flight, or "
          "the network has stalled",
          name, actions(p), at->transfer);
    }
    return fmt::format("{} is {}: waits for {}, which {} {} not started", name, actions(p),
                       at->transfer, names(at->missing), at->missing.size() == 1 ? "has" : "have");
  }

  /// Follows the waits from the first blocked device. Returns the cycle or the last device as text.
  std::string describe_cause() const {
    std::vector<std::size_t> path;
    for (std::size_t p = 0; p < programs_.size() && path.empty(); ++p) {
      const auto at = awaited(p);
      if (at && !at->missing.empty()) path.push_back(p);
    }
    if (path.empty()) return "";
    while (true) {
      const auto at = awaited(path.back());
      if (!at || at->missing.empty())
        return fmt::format("\n  every other device waits for {}",
                           programs_[path.back()].device_name);
      const std::size_t following = at->missing.front();
      const auto seen = std::find(path.begin(), path.end(), following);
      if (seen != path.end()) {
        std::string text = "\n  deadlock: these devices wait for each other: ";
        for (auto device = seen; device != path.end(); ++device)
          text += programs_[*device].device_name + " -> ";
        return text + programs_[*seen].device_name;
      }
      path.push_back(following);
    }
  }

  const std::vector<Program>& programs_;
  const std::vector<std::optional<std::size_t>>& next_;
  const std::vector<std::optional<transfer::OperationKey>>& collectives_;
  /// Program and instruction of each Start, by transfer.
  std::map<Key, std::vector<std::pair<std::size_t, std::size_t>>> starts_;
};

}  // namespace

std::string explain_stall(const std::vector<Program>& programs,
                          const std::vector<std::optional<std::size_t>>& next,
                          const std::vector<std::optional<transfer::OperationKey>>& collectives) {
  return Stall(programs, next, collectives).text();
}

DevicePosition find_device_position(const Program& program, std::size_t next,
                                    const std::optional<transfer::OperationKey>& collective) {
  DevicePosition position;
  position.actions = actions_at(program, next);
  auto awaited = awaited_at(program, next);
  std::set<Key> ahead;
  bool known = false;  // Whether the collective is a transfer of this program.
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* start = std::get_if<Start>(&program.instructions[i]);
    if (start == nullptr) continue;
    const Key key(program.transfers[start->transfer].op, start->microbatch);
    known = known || (collective && key == Key(collective->op, collective->microbatch));
    if (i >= next) ahead.insert(key);
  }
  if (known) awaited = Key(collective->op, collective->microbatch);
  for (const Key& key : ahead) position.ahead.push_back({key.first, key.second});
  if (!awaited) return position;
  position.waits_for = transfer::OperationKey{awaited->first, awaited->second};
  position.transfer = transfer_name(program, *awaited);
  position.with = partners(program, *awaited);
  return position;
}

}  // namespace weft::mesh
