#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "core/device_emulated/emulated_device.h"
#include "mesh/program/program.h"

namespace weft::test {

/// When each device got how far.
struct Played {
  std::vector<double> end;       ///< Of all instructions.
  std::vector<double> last_run;  ///< Of the last op.
  bool finished = false;
};

/// Runs compiled programs on a clock that is only counted, as devices do that compute and send beside each other: ops take what
/// an emulated device takes, a transfer begins when all who take part have started it and the one before it on its lane is over,
/// and a Wait stands until the transfer is over.
class ProgramPlayer {
 public:
  using TransferSeconds = std::function<double(const mesh::Program& program, const mesh::Transfer& transfer)>;

  ProgramPlayer(const std::vector<mesh::Program>& programs, TransferSeconds seconds)
      : programs_(programs), seconds_(std::move(seconds)), at_(programs.size(), 0), clock_(programs.size(), 0) {
    for (const mesh::Program& program : programs) {
      std::vector<Key> keys(program.num_handles);
      for (const mesh::Instruction& instruction : program.instructions) {
        const auto* start = std::get_if<mesh::Start>(&instruction);
        if (start == nullptr) continue;
        const mesh::Transfer& transfer = program.transfers[start->transfer];
        const Key key = keys[start->handle] = {transfer.op, start->microbatch};
        Execution& execution = executions_[key];
        execution.seconds = std::max(execution.seconds, seconds_(program, transfer));
        ++execution.missing;
        std::vector<int>& lane = lanes_[transfer.op];
        if (start->source >= 0 && std::ranges::find(lane, start->microbatch) == lane.end()) lane.push_back(start->microbatch);
      }
      keys_.push_back(std::move(keys));
    }
    played_.last_run.assign(programs.size(), 0);
  }

  Played play() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t device = 0; device < programs_.size(); ++device) {
        while (advance(device)) moved = true;
      }
    }
    played_.finished = true;
    for (std::size_t device = 0; device < programs_.size(); ++device) {
      played_.finished = played_.finished && at_[device] == programs_[device].instructions.size();
    }
    played_.end = clock_;
    return played_;
  }

 private:
  using Key = std::pair<std::uint32_t, int>;
  struct Execution {
    double seconds = 0;
    double ready = 0;
    int missing = 0;
  };

  bool advance(std::size_t device) {
    const mesh::Program& program = programs_[device];
    if (at_[device] == program.instructions.size()) return false;
    double& clock = clock_[device];
    const mesh::Instruction& instruction = program.instructions[at_[device]];
    if (const auto* run = std::get_if<mesh::Run>(&instruction)) {
      std::vector<TensorType> inputs;
      for (const std::uint32_t input : run->inputs) inputs.push_back(program.buffers[input].type);
      clock += emulated_seconds({}, program.ops[run->op], inputs);
      played_.last_run[device] = clock;
    } else if (const auto* start = std::get_if<mesh::Start>(&instruction)) {
      Execution& execution = executions_.at(keys_[device][start->handle]);
      execution.ready = std::max(execution.ready, clock);
      --execution.missing;
    } else if (const auto* wait = std::get_if<mesh::Wait>(&instruction)) {
      const std::optional<double> over = end_of(keys_[device][wait->handle]);
      if (!over) return false;
      clock = std::max(clock, *over);
    }
    ++at_[device];
    return true;
  }

  std::optional<double> end_of(const Key& key) {
    const Execution& execution = executions_.at(key);
    if (execution.missing > 0) return std::nullopt;
    if (const auto known = ends_.find(key); known != ends_.end()) return known->second;
    double start = execution.ready;
    const std::vector<int>& lane = lanes_[key.first];
    if (const auto place = std::ranges::find(lane, key.second); place != lane.begin()) {
      const std::optional<double> before = end_of({key.first, *(place - 1)});
      if (!before) return std::nullopt;
      start = std::max(start, *before);
    }
    return ends_[key] = start + execution.seconds;
  }

  const std::vector<mesh::Program>& programs_;
  const TransferSeconds seconds_;
  std::vector<std::size_t> at_;
  std::vector<double> clock_;
  std::vector<std::vector<Key>> keys_;               ///< Per program: handle -> transfer.
  std::map<Key, Execution> executions_;              ///< By (op, microbatch).
  std::map<std::uint32_t, std::vector<int>> lanes_;  ///< Microbatches of an op in the order in which they are sent.
  std::map<Key, double> ends_;
  Played played_;
};

}  // namespace weft::test
