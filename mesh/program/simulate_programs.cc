#include "mesh/program/simulate_programs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/simulation/simulate_tasks.h"

namespace weft::mesh {
namespace {

/// Task graph of the programs and their traffic: a chain of computation, Starts and Waits for each
/// device, and a task for each movement.
class ProgramTasks {
 public:
  ProgramTasks(const std::vector<Program>& programs, const InstructionSeconds& seconds,
               const Traffic& traffic)
      : programs_(programs),
        traffic_(traffic),
        devices_(programs.size(), SimulatedDevice{TaskChain(tasks_)}) {
    if (seconds.size() != programs.size()) {
      throw_error(ErrorCode::kInvalidArgument, "expected durations of {} programs, got those of {}",
                  programs.size(), seconds.size());
    }
    tasks_.links.rates = traffic.link_rates;
    tasks_.links.queues = traffic.queue_places.size();
    for (std::size_t index = 0; index < programs.size(); ++index) {
      if (seconds[index].size() != programs[index].instructions.size()) {
        throw_error(ErrorCode::kInvalidArgument,
                    "the program of {} has {} instructions, but times of {}",
                    programs[index].device_name, programs[index].instructions.size(),
                    seconds[index].size());
      }
      add_device(index, seconds[index]);
    }
    for (std::size_t index = 0; index < programs.size(); ++index) find_instances(index);
    add_movements();
  }

  ProgramSimulation play() const {
    const TaskTimes times = simulate_tasks(tasks_);
    ProgramSimulation result;
    for (std::size_t index = 0; index < devices_.size(); ++index) {
      check_done(index, times);
      const auto end_of = [&](const std::optional<TaskId>& task) {
        return task ? times.end[task->value()] : 0;
      };
      result.end.push_back(end_of(devices_[index].chain.last()));
      result.last_run.push_back(end_of(devices_[index].last_run));
      result.step = std::max(result.step, result.end.back());
    }
    return result;
  }

 private:
  struct SimulatedDevice {
    TaskChain chain;
    std::optional<TaskId> last_run = {};          ///< Task that ends with the last Run.
    std::vector<TaskId> starts = {}, waits = {};  ///< Tasks by handle.
  };
  /// A device's share of a transfer.
  struct TransferShare {
    std::size_t program = 0;
    std::uint32_t handle = 0;
  };
  /// One of a movement's devices and the devices behind it. They complete the movement together.
  struct Group {
    std::optional<TransferShare> first;
    std::vector<TransferShare> all;
  };
  /// A movement for one microbatch.
  struct Instance {
    const Traffic::FlowMovement* movement = nullptr;
    std::vector<Group> groups;  ///< Groups, indexed as FlowMovement::devices.
    std::size_t order = 0;      ///< Number of the sender's Start among all Starts.
  };

  void add_device(std::size_t index, const std::vector<double>& seconds) {
    const std::vector<Instruction>& instructions = programs_[index].instructions;
    SimulatedDevice& device = devices_[index];
    device.starts.resize(programs_[index].num_handles);
    device.waits.resize(programs_[index].num_handles);
    std::size_t past_last_run = 0;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (std::holds_alternative<Run>(instructions[i])) past_last_run = i + 1;
    }
    double computes = 0;  // Seconds of computation since the last task.
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const auto* start = std::get_if<Start>(&instructions[i]);
      const auto* wait = std::get_if<Wait>(&instructions[i]);
      const bool computation = start == nullptr && wait == nullptr;
      if (computation) computes += seconds[i];
      const bool is_last_run = i + 1 == past_last_run;
      if (is_last_run || (!computation && computes > 0) || i + 1 == instructions.size()) {
        device.chain.append(computes);
        computes = 0;
      }
      if (is_last_run) device.last_run = device.chain.last();
      if (start != nullptr) device.starts[start->handle] = device.chain.append();
      if (wait != nullptr) device.waits[wait->handle] = device.chain.append();
    }
  }

  /// Adds the program to the movements that its device takes part in. Creates a transfer's
  /// movements at its first Start.
  void find_instances(std::size_t index) {
    const Program& program = programs_[index];
    for (const Instruction& instruction : program.instructions) {
      const auto* start = std::get_if<Start>(&instruction);
      if (start == nullptr) continue;
      const std::uint32_t op = program.transfers[start->transfer].op;
      const auto movements = traffic_.movements.find(op);
      if (movements == traffic_.movements.end()) {
        throw_error(ErrorCode::kInvalidArgument,
                    "the traffic has no entry for transfer '{}'; compute it from the same programs",
                    program.transfers[start->transfer].name);
      }
      const auto [first, is_new] =
          first_instance_.try_emplace({op, start->microbatch}, instances_.size());
      if (is_new) {
        for (const Traffic::FlowMovement& movement : movements->second) {
          instances_.push_back({&movement, std::vector<Group>(movement.devices.size()), 0});
        }
      }
      ++starts_;
      for (std::size_t i = 0; i < movements->second.size(); ++i) {
        const Traffic::FlowMovement& movement = movements->second[i];
        const std::optional<std::size_t> group = group_of(program.device, movement);
        if (!group) continue;
        Instance& instance = instances_[first->second + i];
        const TransferShare part{index, start->handle};
        instance.groups[*group].all.push_back(part);
        if (movement.devices[*group] == program.device) instance.groups[*group].first = part;
        if (!movement.queue || movement.queue->device == program.device) instance.order = starts_;
      }
    }
  }

  static std::optional<std::size_t> group_of(transfer::DeviceId device,
                                             const Traffic::FlowMovement& movement) {
    const auto behind =
        std::ranges::find(movement.behind, device, &Traffic::FlowMovement::LocalReceiver::device);
    const transfer::DeviceId first = behind != movement.behind.end() ? behind->from : device;
    const auto found = std::ranges::find(movement.devices, first);
    if (found == movement.devices.end()) return std::nullopt;
    return static_cast<std::size_t>(found - movement.devices.begin());
  }

  /// Adds movements in the order in which their senders start them, which is the order of queues.
  void add_movements() {
    std::ranges::stable_sort(instances_, {}, &Instance::order);
    for (const Instance& instance : instances_) add_movement(instance);
  }

  void add_movement(const Instance& instance) {
    const Traffic::FlowMovement& movement = *instance.movement;
    Movement made;
    made.amount = movement.bytes;
    for (const auto& crossing : movement.crossings)
      made.link_uses.push_back({crossing.link, crossing.bytes_per_byte});
    made.weight = movement.weight;
    made.latency = movement.latency;
    made.early_chunk = movement.eager_chunk;
    const bool queued = movement.queue && !movement.crossings.empty();
    if (queued) made.queue = {movement.queue->index, 1, places_in(*movement.queue)};
    std::vector<TaskId> waits;
    for (std::size_t i = 0; i < instance.groups.size(); ++i) {
      const transfer::DeviceId device = movement.devices[i];
      const std::optional<TransferShare>& first = instance.groups[i].first;
      const TaskId start = first ? start_of(*first) : unstarted_task();
      if (queued && device != movement.queue->device)
        made.receivers.push_back({start, buffer(movement.queue->device, device)});
      else waits.push_back(start);
    }
    const TaskId task = tasks_.add(std::move(made));
    for (const TaskId start : waits) tasks_.add_dependency(task, start);
    for (const Group& group : instance.groups) {
      for (const TransferShare& part : group.all) {
        const TaskId wait = devices_[part.program].waits[part.handle];
        tasks_.add_dependency(wait, task);
        for (const TransferShare& other : group.all) tasks_.add_dependency(wait, start_of(other));
      }
    }
  }

  double places_in(const Traffic::FlowMovement::SendQueue& queue) const {
    return queue.places != 0 ? queue.places : traffic_.queue_places.at(queue.index);
  }

  TaskId start_of(const TransferShare& part) const {
    return devices_[part.program].starts[part.handle];
  }

  /// Returns a task that never ends, in place of a missing Start.
  TaskId unstarted_task() {
    if (!never_) {
      never_ = tasks_.add();
      tasks_.add_dependency(*never_, *never_);
    }
    return *never_;
  }

  /// Returns the buffer in which `to` keeps early messages of `from`.
  std::uint32_t buffer(transfer::DeviceId from, transfer::DeviceId to) {
    const auto [at, is_new] = buffers_.try_emplace({from, to}, buffers_.size());
    if (is_new) tasks_.links.buffers.push_back(traffic_.eager_budget);
    return at->second;
  }

  void check_done(std::size_t index, const TaskTimes& times) const {
    const Program& program = programs_[index];
    const SimulatedDevice& device = devices_[index];
    if (const auto last = device.chain.last(); !last || times.has_ended[last->value()]) return;
    for (const Instruction& instruction : program.instructions) {
      const auto* start = std::get_if<Start>(&instruction);
      if (start == nullptr || times.has_ended[device.waits[start->handle].value()]) continue;
      throw_error(ErrorCode::kInvalidArgument,
                  "the programs cannot finish: {} waits for '{}' of microbatch {}",
                  program.device_name, program.transfers[start->transfer].name, start->microbatch);
    }
  }

  const std::vector<Program>& programs_;
  const Traffic& traffic_;
  TaskGraph tasks_;
  std::vector<SimulatedDevice> devices_;
  /// First index into instances_, by (op, microbatch).
  std::map<std::pair<std::uint32_t, int>, std::size_t> first_instance_;
  std::vector<Instance> instances_;
  std::map<std::pair<transfer::DeviceId, transfer::DeviceId>, std::uint32_t> buffers_;
  std::optional<TaskId> never_;
  std::size_t starts_ = 0;
};

}  // namespace

ProgramSimulation simulate_programs(const std::vector<Program>& programs,
                                    const InstructionSeconds& seconds, const Traffic& traffic) {
  return ProgramTasks(programs, seconds, traffic).play();
}

}  // namespace weft::mesh
