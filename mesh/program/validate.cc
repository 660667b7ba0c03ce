#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/simulation/simulate_tasks.h"
#include "mesh/program/compile.h"
#include "mesh/program/memory_check.h"
#include "mesh/program/stall.h"

namespace weft::mesh {
namespace {

using Key = std::pair<std::uint32_t, int>;  // op, microbatch

/// Starts and Waits of all programs, as tasks that take no time. Each execution of a transfer is a
/// task too: it ends only after every participant has started it. (This is stricter than necessary;
/// every program of the compiler satisfies it.)
class ProgramWaits {
 public:
  explicit ProgramWaits(const std::vector<Program>& programs) : programs_(programs) {
    for (const Program& program : programs) add(program);
  }

  /// Throws unless every peer that a transfer names takes part in each of its executions.
  void check_matched() const {
    for (const Program& program : programs_) {
      for (const Instruction& instruction : program.instructions) {
        const auto* start = std::get_if<Start>(&instruction);
        if (start == nullptr) continue;
        const Transfer& transfer = program.transfers[start->transfer];
        if (transfer.engine_share() == nullptr)
          continue;  // Lowered from device parts that were checked.
        const std::vector<transfer::DeviceId>& members =
            executions_.at({transfer.op, start->microbatch}).members;
        for (const transfer::DeviceId peer : transfer.engine_share()->peers()) {
          if (std::find(members.begin(), members.end(), peer) == members.end()) {
            throw_error(ErrorCode::kInternal,
                        "program '{}': {} takes part in '{}' of microbatch {}, but its peer device "
                        "{} does not",
                        program.name, program.device_name, transfer.name, start->microbatch, peer);
          }
        }
      }
    }
  }

  void check_finishes() const {
    const TaskTimes times = simulate_tasks(tasks_);
    if (times.all_ended()) return;
    std::vector<std::optional<std::size_t>> positions;
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      const auto stuck = std::ranges::find_if(
          waits_[p], [&](const PlacedWait& wait) { return !times.has_ended[wait.task.value()]; });
      positions.push_back(stuck == waits_[p].end() ? programs_[p].instructions.size()
                                                   : stuck->place);
    }
    throw_error(ErrorCode::kInternal, "the programs '{}' cannot finish:{}", programs_.front().name,
                explain_stall(programs_, positions));
  }

 private:
  struct Execution {
    TaskId task;
    std::vector<transfer::DeviceId> members;
  };
  struct PlacedWait {
    std::size_t place = 0;  ///< Index of the Wait in the program's instructions.
    TaskId task;
  };

  void add(const Program& program) {
    TaskChain chain(tasks_);
    std::vector<TaskId> executions(program.num_handles);
    std::vector<PlacedWait>& waits = waits_.emplace_back();
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      if (const auto* start = std::get_if<Start>(&program.instructions[i])) {
        const auto [at, is_new] =
            executions_.try_emplace({program.transfers[start->transfer].op, start->microbatch});
        if (is_new) at->second.task = tasks_.add();
        at->second.members.push_back(program.device);
        executions[start->handle] = at->second.task;
        tasks_.add_dependency(at->second.task, chain.append());
      } else if (const auto* wait = std::get_if<Wait>(&program.instructions[i])) {
        waits.push_back({i, chain.append()});
        tasks_.add_dependency(waits.back().task, executions[wait->handle]);
      }
    }
  }

  const std::vector<Program>& programs_;
  TaskGraph tasks_;
  std::map<Key, Execution> executions_;
  std::vector<std::vector<PlacedWait>> waits_;  ///< Waits by program.
};

/// Throws unless all devices start the collectives among them in one order. Collectives may run one
/// after the other in that order on each device (GPUs do that), and two orders would deadlock.
void check_one_order(const std::vector<Program>& programs) {
  TaskGraph tasks;
  std::map<Key, TaskId> known;
  std::vector<std::string> names;  // Names of tasks, by task.
  std::set<std::vector<Key>> orders;
  for (const Program& program : programs) {
    std::vector<Key> order;
    std::set<Key> started;
    for (const Instruction& instruction : program.instructions) {
      const auto* start = std::get_if<Start>(&instruction);
      if (start == nullptr) continue;
      const Transfer& transfer = program.transfers[start->transfer];
      if (transfer.kind != TransferPurpose::kInMesh && transfer.kind != TransferPurpose::kAllReduce)
        continue;
      order.emplace_back(transfer.op, start->microbatch);
      if (!started.insert(order.back()).second)
        throw_error(ErrorCode::kInternal, "program '{}': {} starts '{}' of microbatch {} twice",
                    program.name, program.device_name, transfer.name, start->microbatch);
      if (!known.try_emplace(order.back(), TaskId(names.size())).second) continue;
      tasks.add();
      names.push_back(fmt::format("'{}' of microbatch {}", transfer.name, start->microbatch));
    }
    if (!orders.insert(order).second) continue;
    for (std::size_t i = 1; i < order.size(); ++i)
      tasks.add_dependency(known.at(order[i]), known.at(order[i - 1]));
  }
  const std::vector<TaskId> cycle = find_cycle(tasks);
  if (cycle.empty()) return;
  std::vector<std::string> involved;
  for (const TaskId task : cycle) involved.push_back(names[task.value()]);
  throw_error(ErrorCode::kInternal, "the programs '{}' start collectives in several orders: {}",
              programs.front().name, fmt::join(involved, ", "));
}

void check_waits(const Program& program) {
  std::vector<int> state(program.num_handles, 0);
  for (const Instruction& instruction : program.instructions) {
    if (const auto* start = std::get_if<Start>(&instruction)) {
      if (state.at(start->handle)++ != 0)
        throw_error(ErrorCode::kInternal, "{}: transfer {} starts twice", program.device_name,
                    start->handle);
    } else if (const auto* wait = std::get_if<Wait>(&instruction)) {
      if (state.at(wait->handle)++ != 1) {
        throw_error(ErrorCode::kInternal,
                    "{}: transfer {} is waited for before it starts, or twice", program.device_name,
                    wait->handle);
      }
    }
  }
  for (std::size_t handle = 0; handle < state.size(); ++handle) {
    if (state[handle] != 2)
      throw_error(ErrorCode::kInternal, "{}: transfer {} is never waited for", program.device_name,
                  handle);
  }
}

}  // namespace

void validate(const std::vector<Program>& programs) {
  for (const Program& program : programs) {
    check_waits(program);
    check_memory(program);
  }
  check_one_order(programs);
  const ProgramWaits rendezvous(programs);
  rendezvous.check_matched();
  rendezvous.check_finishes();
}

}  // namespace weft::mesh
