#include "mesh/program_simulation/simulate_programs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
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
        moved(links_.take_ended());
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
  /// A device's part in a transfer, by program and handle.
  struct PartId {
    std::size_t program = 0;
    std::uint32_t handle = 0;
  };
  /// One of a movement's devices, and those behind it: they are done together.
  struct Group {
    std::vector<PartId> parts;
    std::size_t open = 1;  ///< Parts that have not been started, and the movement itself.
    bool first_started = false;
  };
  /// A movement of one microbatch.
  struct Instance {
    const Traffic::Movement* movement = nullptr;
    std::size_t missing = 0;    ///< Devices that have not started it.
    std::vector<Group> groups;  ///< By device.
    std::uint64_t order = 0;
    enum class State : std::uint8_t { kStill, kMoving, kOver };
    State state = State::kStill;
    double left = 0;   ///< Bytes that have not begun to move.
    double early = 0;  ///< Bytes that receivers keep until they start it.
    double end = 0;
  };
  /// The movements in which a device takes part.
  struct Part {
    struct Role {
      std::size_t instance = 0;
      std::size_t group = 0;
    };
    std::vector<Role> roles;
    std::size_t open = 0;
    double end = 0;  ///< When the last of them that is done was.
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
          const std::size_t devices = movement.devices.size();
          instances_.push_back(
              {.movement = &movement, .missing = devices, .groups = std::vector<Group>(devices), .left = movement.bytes});
        }
      }
      Part& part = device.parts[start->handle];
      for (std::size_t i = 0; i < movements->second.size(); ++i) {
        const std::optional<std::size_t> group = group_of(program.device, movements->second[i]);
        if (!group) continue;
        Group& joined = instances_[first->second + i].groups[*group];
        joined.parts.push_back({index, start->handle});
        ++joined.open;
        part.roles.push_back({first->second + i, *group});
      }
      part.open = part.roles.size();
    }
  }

  static std::optional<std::size_t> group_of(transfer::DeviceId device, const Traffic::Movement& movement) {
    const auto behind = std::ranges::find(movement.behind, device, &Traffic::Movement::Behind::device);
    const transfer::DeviceId first = behind != movement.behind.end() ? behind->from : device;
    const auto found = std::ranges::find(movement.devices, first);
    if (found == movement.devices.end()) return std::nullopt;
    return static_cast<std::size_t>(found - movement.devices.begin());
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
        continue;
      }
      const Part& part = device.parts[wait->handle];
      device.blocked = part.open > 0;
      if (device.blocked) return;
      if (part.end > now_) return resume_at(part.end, index);
    }
  }

  void begin(transfer::DeviceId device, const Part& part) {
    for (const Part::Role& role : part.roles) {
      Instance& instance = instances_[role.instance];
      if (instance.movement->devices[role.group] == device) begin_first(device, role);
      if (--instance.groups[role.group].open == 0) end(instance, role.group);
    }
  }

  void begin_first(transfer::DeviceId device, const Part::Role& role) {
    Instance& instance = instances_[role.instance];
    instance.groups[role.group].first_started = true;
    const auto& queue = instance.movement->queue;
    const bool sends = !queue || queue->device == device;
    if (sends) instance.order = ++started_;
    if (!sends) kept_[{queue->device, device}] -= instance.early;
    if (--instance.missing == 0) {
      if (instance.state == Instance::State::kStill) move(role.instance, instance.left);
    } else if (sends && instance.movement->eager_chunk > 0) {
      instance.early = room_for(instance);
      if (instance.early > 0) move(role.instance, instance.early);
    }
  }

  /// Takes the room for what moves of it before its receivers have started it.
  double room_for(const Instance& instance) {
    const Traffic::Movement& movement = *instance.movement;
    std::vector<double*> kept;
    double room = movement.bytes;
    for (std::size_t i = 0; i < movement.devices.size(); ++i) {
      if (instance.groups[i].first_started) continue;
      kept.push_back(&kept_[{movement.queue->device, movement.devices[i]}]);
      room = std::min(room, traffic_.eager_budget - *kept.back());
    }
    if (room < movement.bytes) room = std::max(0.0, std::floor(room / movement.eager_chunk) * movement.eager_chunk);
    for (double* one : kept) *one += room;
    return room;
  }

  void move(std::size_t number, double bytes) {
    Instance& instance = instances_[number];
    if (instance.movement->crossings.empty()) return over(number);
    instance.state = Instance::State::kMoving;
    instance.left -= bytes;
    links_.advance(now_);
    links_.add(number, *instance.movement, instance.order, bytes);
  }

  /// What was on the links is there.
  void moved(std::size_t number) {
    Instance& instance = instances_[number];
    if (instance.left == 0) return over(number);
    instance.state = Instance::State::kStill;
    if (instance.missing == 0) move(number, instance.left);
  }

  void over(std::size_t number) {
    Instance& instance = instances_[number];
    instance.state = Instance::State::kOver;
    instance.end = now_ + instance.movement->latency;
    for (std::size_t group = 0; group < instance.groups.size(); ++group) {
      if (--instance.groups[group].open == 0) end(instance, group);
    }
  }

  /// A group of a movement is done.
  void end(const Instance& instance, std::size_t group) {
    for (const PartId& id : instance.groups[group].parts) {
      Device& device = devices_[id.program];
      Part& part = device.parts[id.handle];
      part.end = std::max({part.end, instance.end, now_});
      if (--part.open > 0 || !device.blocked) continue;
      if (std::get<Wait>(programs_[id.program].instructions[device.next]).handle != id.handle) continue;
      device.blocked = false;
      resume_at(part.end, id.program);
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
  using Event = std::pair<double, std::size_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;      ///< Devices that go on at a time.
  std::map<std::pair<transfer::DeviceId, transfer::DeviceId>, double> kept_;  ///< Bytes of the first that the second keeps.
  std::uint64_t started_ = 0;
  double now_ = 0;
};

}  // namespace

ProgramSimulation simulate_programs(const std::vector<Program>& programs, const InstructionSeconds& seconds,
                                    const Traffic& traffic) {
  return Player(programs, seconds, traffic).run();
}

}  // namespace weft::mesh
