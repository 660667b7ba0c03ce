#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mesh/program/arena.h"
#include "mesh/program/program.h"

namespace weft::mesh {

/// Writes one device's program: appends instructions, keeps track of where each value lies, which
/// transfers are still under way and how long memory is needed. Used once; owner's thread only.
class Emitter {
 public:
  explicit Emitter(std::string program_name, transfer::DeviceId device, std::string device_name);

  /// Index of the persistent block of this name, made with `bytes` the first time.
  std::int32_t persistent(const std::string& name, std::uint64_t bytes,
                          MemoryPlace place = MemoryPlace::kDevice);
  std::uint32_t add_persistent_buffer(std::int32_t persistent, std::uint64_t offset,
                                      TensorType type);
  std::uint32_t add_arena_buffer(TensorType type);
  std::uint32_t add_transfer(Transfer transfer);
  std::uint32_t add_input(DataInput input);
  void add_parameter(ProgramParameter parameter) {
    program_.parameters.push_back(std::move(parameter));
  }
  void set_losses(std::uint32_t buffer) { program_.losses = buffer; }

  void begin(const Begin& action);
  /// Waits for what the inputs and outputs still wait for, then runs.
  void run(const Op& op, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
           bool accumulate);
  void read(std::uint32_t input, std::uint32_t buffer, int microbatch);
  void accumulate(std::uint32_t source, std::uint32_t destination, bool first);
  void norm(std::uint32_t destination);
  void update(std::uint32_t norms);
  /// Starts a transfer; a later use of a buffer that it writes, or a reuse of one that it reads,
  /// waits for it. Gives its handle.
  std::uint32_t start(std::uint32_t transfer, int microbatch, std::optional<std::uint32_t> source,
                      std::optional<std::uint32_t> destination);
  /// Waits for the transfer unless that was done before.
  void wait(std::uint32_t handle);
  void wait_for_all();

  /// Assigns memory and gives the program away.
  Program finish();

 private:
  void use(std::uint32_t buffer);
  void await_buffer(std::uint32_t buffer);
  void append(Instruction instruction);
  std::uint32_t index_of(const Op& op);
  /// Replaces pairs of Runs of an action by what core/graph makes of them.
  void fuse_runs();
  /// Those of the instructions from begin to end. `uses`: how often the program names each buffer.
  /// Notes which are gone.
  void fuse_action(std::size_t begin, std::size_t end, const std::vector<std::size_t>& uses,
                   std::vector<bool>& gone);

  /// What a started transfer touches.
  struct Pending {
    std::optional<std::uint32_t> source;
    std::optional<std::uint32_t> destination;
  };

  Program program_;
  std::map<std::string, std::int32_t> persistent_index_;
  /// By handle; waited for in order at the end.
  std::map<std::uint32_t, Pending> pending_;
  /// Buffer -> handle of the transfer that fills it.
  std::map<std::uint32_t, std::uint32_t> filled_by_;
  /// Per buffer: first and last instruction; -1 before use.
  std::vector<std::pair<std::int64_t, std::int64_t>> life_;
};

/// The programs of all devices, each of which ends when all that it has started is done. Validated.
std::vector<Program> finish_all(std::vector<Emitter>& emitters);

}  // namespace weft::mesh
