#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "mesh/program/compile.h"
#include "mesh/program/memory_check.h"
#include "mesh/program/stall.h"

namespace weft::mesh {
namespace {

/// One execution of a transfer: all its participants must start it before any can complete it. (Weaker assumptions about who
/// waits for whom would let more programs pass; none that the compiler makes needs them.)
struct Rendezvous {
  std::size_t participants = 0;
  std::size_t started = 0;
};

using Key = std::pair<std::uint32_t, int>;  // op, microbatch

/// Steps through all programs at once.
class Rehearsal {
 public:
  explicit Rehearsal(const std::vector<Program>& programs) : programs_(programs), next_(programs.size(), 0) {
    for (const Program& program : programs) {
      std::vector<Key> keys(program.num_handles);
      for (const Instruction& instruction : program.instructions) {
        if (const auto* start = std::get_if<Start>(&instruction)) {
          keys[start->handle] = {program.transfers[start->transfer].op, start->microbatch};
          ++rendezvous_[keys[start->handle]].participants;
          members_[keys[start->handle]].push_back(program.device);
        }
      }
      keys_.push_back(std::move(keys));
    }
  }

  /// Every device that a transfer names as a peer must take part in each of its executions.
  void check_matched() const {
    for (const Program& program : programs_) {
      for (const Instruction& instruction : program.instructions) {
        const auto* start = std::get_if<Start>(&instruction);
        if (start == nullptr) continue;
        const Transfer& transfer = program.transfers[start->transfer];
        const auto& members = members_.at({transfer.op, start->microbatch});
        for (const transfer::DeviceId peer : transfer.part.peers()) {
          if (std::find(members.begin(), members.end(), peer) == members.end()) {
            throw_error(ErrorCode::kInternal,
                        "program '{}': {} takes part in '{}' of microbatch {}, but its peer device {} does not", program.name,
                        program.device_name, transfer.name, start->microbatch, peer);
          }
        }
      }
    }
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t device = 0; device < programs_.size(); ++device) moved = advance(device) || moved;
    }
    std::vector<std::optional<std::size_t>> positions(next_.begin(), next_.end());
    const bool finished =
        std::equal(programs_.begin(), programs_.end(), next_.begin(),
                   [](const Program& program, std::size_t next) { return next == program.instructions.size(); });
    if (!finished) {
      throw_error(ErrorCode::kInternal, "the programs '{}' cannot finish:{}", programs_.front().name,
                  explain_stall(programs_, positions));
    }
  }

 private:
  bool advance(std::size_t device) {
    const Program& program = programs_[device];
    bool moved = false;
    while (next_[device] < program.instructions.size()) {
      const Instruction& instruction = program.instructions[next_[device]];
      if (const auto* start = std::get_if<Start>(&instruction)) ++rendezvous_[keys_[device][start->handle]].started;
      if (const auto* wait = std::get_if<Wait>(&instruction)) {
        const Rendezvous& meeting = rendezvous_[keys_[device][wait->handle]];
        if (meeting.started < meeting.participants) break;
      }
      ++next_[device];
      moved = true;
    }
    return moved;
  }

  const std::vector<Program>& programs_;
  std::vector<std::size_t> next_;
  std::vector<std::vector<Key>> keys_;  ///< Per program: handle -> transfer.
  std::map<Key, Rendezvous> rendezvous_;
  std::map<Key, std::vector<transfer::DeviceId>> members_;
};

void check_waits(const Program& program) {
  std::vector<int> state(program.num_handles, 0);
  for (const Instruction& instruction : program.instructions) {
    if (const auto* start = std::get_if<Start>(&instruction)) {
      if (state.at(start->handle)++ != 0)
        throw_error(ErrorCode::kInternal, "{}: transfer {} starts twice", program.device_name, start->handle);
    } else if (const auto* wait = std::get_if<Wait>(&instruction)) {
      if (state.at(wait->handle)++ != 1) {
        throw_error(ErrorCode::kInternal, "{}: transfer {} is waited for before it starts, or twice", program.device_name,
                    wait->handle);
      }
    }
  }
  for (std::size_t handle = 0; handle < state.size(); ++handle) {
    if (state[handle] != 2) throw_error(ErrorCode::kInternal, "{}: transfer {} is never waited for", program.device_name, handle);
  }
}

}  // namespace

void validate(const std::vector<Program>& programs) {
  for (const Program& program : programs) {
    check_waits(program);
    check_memory(program);
  }
  Rehearsal rehearsal(programs);
  rehearsal.check_matched();
  rehearsal.run();
}

}  // namespace weft::mesh
