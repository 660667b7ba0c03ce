#include "mesh/program_simulation/simulate_programs.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "core/base/error.h"
#include "mesh/program_simulation/internal/shared_links.h"

namespace weft::mesh {
namespace {

class Player {
 public:
  Player(const std::vector<Program>& programs, const InstructionSeconds& seconds, const Traffic& traffic)
      : programs_(programs), seconds_(seconds), traffic_(traffic), links_(traffic), devices_(programs.size()) {
    if (seconds.size() != programs.size()) {
      throw_error(ErrorCode::kInvalidArgument, "{} programs, but times of {}", programs.size(), seconds.size());
    }
    for (std::size_t index = 0; index < programs.size(); ++index) {
      if (seconds[index].size() != programs[index].instructions.size()) {
        throw_error(ErrorCode::kInvalidArgument, "the program of {} has {} instructions, but times of {}",
                    programs[index].device_name, programs[index].instructions.size(), seconds[index].size());
      }
    }
    for (std::size_t index = 0; index < programs.size(); ++index) find_parts(index);
  }

  ProgramSimulation run() {
    for (std::size_t index = 0; index < devices_.size(); ++index) resume_at(0, index);
    while (true) {
      const std::optional<double> end = links_.next_end();
      if (end && (queue_.empty() || *end <= queue_.top().first)) {
        now_ = *end;
        links_.advance(now_);
        over(links_.take_ended());
      } else if (!queue_.empty()) {
        const auto [time, index] = queue_.top();
        queue_.pop();
        now_ = time;
        advance(index);
      } else {
        break;
      }
    }
    ProgramSimulation result;
    for (std::size_t index = 0; index < devices_.size(); ++index) {
      check_done(index);
      result.end.push_back(devices_[index].clock);
      result.last_run.push_back(devices_[index].last_run);
      result.step = std::max(result.step, devices_[index].clock);
    }
    return result;
  }

 private:
  /// A movement of one microbatch.
  struct Instance {
    const Traffic::Movement* movement = nullptr;
    std::size_t missing = 0;  ///< Devices that have not started it.
    std::uint64_t order = 0;
    bool begun = false;
  };
  /// A device's part in a transfer: the movements in which it takes part.
  struct Part {
    std::vector<std::size_t> instances;
    std::size_t open = 0;
    double end = 0;  ///< When the last of them that is over was.
    bool started = false;
  };
  struct Device {
    std::size_t next = 0;
    double clock = 0, last_run = 0;
    std::vector<Part> parts;  ///< By handle.
    bool blocked = false;     ///< In the Wait at `next`.
  };

  /// Makes the parts of a program, and the movements that it is the first to know.
  void find_parts(std::size_t index) {
    const Program& program = programs_[index];
    Device& device = devices_[index];
    device.parts.resize(program.num_handles);
    for (const Instruction& instruction : program.instructions) {
      const auto* start = std::get_if<Start>(&instruction);
      if (start == nullptr) continue;
      const std::uint32_t op = program.transfers[start->transfer].op;
      const auto movements = traffic_.movements.find(op);
      if (movements == traffic_.movements.end()) {
        throw_error(ErrorCode::kInvalidArgument, "nothing is known of what '{}' moves", program.transfers[start->transfer].name);
      }
      const auto [first, is_new] = first_instance_.try_emplace({op, start->microbatch}, instances_.size());
      if (is_new) {
        for (const Traffic::Movement& movement : movements->second) {
          instances_.push_back({&movement, movement.devices.size()});
          waiting_.emplace_back();
        }
      }
      Part& part = device.parts[start->handle];
      for (std::size_t i = 0; i < movements->second.size(); ++i) {
        if (std::ranges::find(movements->second[i].devices, program.device) == movements->second[i].devices.end()) continue;
        part.instances.push_back(first->second + i);
        waiting_[first->second + i].emplace_back(index, start->handle);
      }
      part.open = part.instances.size();
    }
  }

  void resume_at(double time, std::size_t index) { queue_.push({time, index}); }

  /// Runs a device on until something must be asked of the others.
  void advance(std::size_t index) {
    Device& device = devices_[index];
    const Program& program = programs_[index];
    device.clock = now_;
    for (; device.next < program.instructions.size(); ++device.next) {
      const Instruction& instruction = program.instructions[device.next];
      const auto* start = std::get_if<Start>(&instruction);
      const auto* wait = std::get_if<Wait>(&instruction);
      if (start == nullptr && wait == nullptr) {
        device.clock += seconds_[index][device.next];
        if (std::holds_alternative<Run>(instruction)) device.last_run = device.clock;
        continue;
      }
      if (device.clock > now_) return resume_at(device.clock, index);
      if (start != nullptr) {
        begin(program.device, device.parts[start->handle]);
        try_held();
        continue;
      }
      const Part& part = device.parts[wait->handle];
      device.blocked = part.open > 0;
      if (device.blocked) return;
      if (part.end > now_) return resume_at(part.end, index);
    }
  }

  void begin(transfer::DeviceId device, Part& part) {
    part.started = true;
    for (const std::size_t number : part.instances) {
      Instance& instance = instances_[number];
      const auto& queue = instance.movement->queue;
      const bool sends = !queue || queue->device == device;
      if (sends) instance.order = ++started_;
      if (!sends && instance.begun) kept_[{queue->device, device}] -= instance.movement->bytes;
      if (--instance.missing == 0) {
        move(number);
      } else if (sends && instance.movement->eager) {
        held_.push_back(number);
      }
    }
  }

  void move(std::size_t number) {
    Instance& instance = instances_[number];
    if (std::exchange(instance.begun, true)) return;
    if (instance.movement->crossings.empty()) return over(number);
    links_.advance(now_);
    links_.add(number, *instance.movement, instance.order);
  }

  /// Lets eager movements go whose receivers have room to keep them.
  void try_held() {
    std::erase_if(held_, [&](std::size_t number) {
      const Traffic::Movement& movement = *instances_[number].movement;
      if (instances_[number].begun) return true;
      std::vector<double*> kept;
      for (const auto& [index, handle] : waiting_[number]) {
        if (!devices_[index].parts[handle].started) kept.push_back(&kept_[{movement.queue->device, programs_[index].device}]);
      }
      if (std::ranges::any_of(kept, [&](const double* one) { return *one + movement.bytes > traffic_.eager_budget; }))
        return false;
      for (double* one : kept) *one += movement.bytes;
      move(number);
      return true;
    });
  }

  void over(std::size_t number) {
    const double end = now_ + instances_[number].movement->latency;
    for (const auto& [index, handle] : waiting_[number]) {
      Device& device = devices_[index];
      Part& part = device.parts[handle];
      part.end = std::max(part.end, end);
      if (--part.open > 0 || !device.blocked) continue;
      if (std::get<Wait>(programs_[index].instructions[device.next]).handle != handle) continue;
      device.blocked = false;
      resume_at(part.end, index);
    }
  }

  void check_done(std::size_t index) const {
    const Program& program = programs_[index];
    if (devices_[index].next == program.instructions.size()) return;
    const auto& wait = std::get<Wait>(program.instructions[devices_[index].next]);
    for (const Instruction& instruction : program.instructions) {
      const auto* start = std::get_if<Start>(&instruction);
      if (start == nullptr || start->handle != wait.handle) continue;
      throw_error(ErrorCode::kInvalidArgument, "the programs cannot finish: {} waits for '{}' of microbatch {}",
                  program.device_name, program.transfers[start->transfer].name, start->microbatch);
    }
  }

  const std::vector<Program>& programs_;
  const InstructionSeconds& seconds_;
  const Traffic& traffic_;
  SharedLinks links_;
  std::vector<Device> devices_;
  std::map<std::pair<std::uint32_t, int>, std::size_t> first_instance_;  ///< By (op, microbatch).
  std::vector<Instance> instances_;
  std::vector<std::vector<std::pair<std::size_t, std::uint32_t>>> waiting_;  ///< By instance: (device, handle).
  using Event = std::pair<double, std::size_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;      ///< Devices that go on at a time.
  std::map<std::pair<transfer::DeviceId, transfer::DeviceId>, double> kept_;  ///< Bytes of the first that the second keeps.
  std::vector<std::size_t> held_;                                             ///< Eager movements whose sender alone has started.
  std::uint64_t started_ = 0;
  double now_ = 0;
};

}  // namespace

ProgramSimulation simulate_programs(const std::vector<Program>& programs, const InstructionSeconds& seconds,
                                    const Traffic& traffic) {
  return Player(programs, seconds, traffic).run();
}

}  // namespace weft::mesh
