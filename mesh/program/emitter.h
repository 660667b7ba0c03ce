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

/// Builder of one device's program: appends instructions and tracks buffers, transfers in flight
/// and memory lifetimes. Used once, on the owner's thread only.
class Emitter {
 public:
  explicit Emitter(std::string program_name, transfer::DeviceId device, std::string device_name);

  /// Returns the index of the persistent block `name`; creates it with `bytes` on first use.
  std::int32_t persistent(const std::string& name, std::uint64_t bytes,
                          MemoryKind place = MemoryKind::kDevice);
  std::uint32_t add_persistent_buffer(std::int32_t persistent, std::uint64_t offset,
                                      TensorType type);
  std::uint32_t add_arena_buffer(TensorType type);
  /// Adds a buffer that lies in another one, from byte `offset` on. The other buffer stays
  /// allocated while the view is in use.
  std::uint32_t add_view(std::uint32_t buffer, std::uint64_t offset, TensorType type);
  std::uint32_t add_transfer(Transfer transfer);
  std::uint32_t add_input(DataInput input);
  void add_parameter(ProgramParameter parameter) {
    program_.parameters.push_back(std::move(parameter));
  }
  void set_losses(std::uint32_t buffer) { program_.losses = buffer; }

  void begin(const BeginAction& action);
  void end_actions();
  /// Emits waits for the transfers that fill the inputs, then the op.
  void run(const Op& op, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
           bool accumulate);
  void read(std::uint32_t input, std::uint32_t buffer, int microbatch);
  void accumulate(std::uint32_t source, std::uint32_t destination, bool first);
  void norm(std::uint32_t destination);
  void update(std::uint32_t norms);
  /// Starts a transfer and returns its handle. A later read of `destination` emits the wait for it.
  /// Both buffers stay allocated until the wait.
  std::uint32_t start(std::uint32_t transfer, int microbatch, std::optional<std::uint32_t> source,
                      std::optional<std::uint32_t> destination);
  /// Emits the wait for the transfer that fills a buffer, if one is in flight.
  void await_buffer(std::uint32_t buffer);
  /// Emits a wait for the transfer unless it was emitted before.
  void wait(std::uint32_t handle);
  void wait_for_all();

  /// Fuses ops, assigns memory and returns the program. All transfers must have been waited for.
  Program finish();

 private:
  void use(std::uint32_t buffer);
  /// Keeps the memory of the buffer until an instruction.
  void extend_life(std::uint32_t buffer, std::int64_t instruction);
  void append(Instruction instruction);
  std::uint32_t index_of(const Op& op);
  /// Replaces Runs within an action by the fused ops of core/ops (find_fusions).
  void fuse_runs();
  /// Fuses ops among the instructions [begin, end). `in_block`: buffers by persistent block.
  /// `uses`: how often the program refers to each buffer. Marks removed instructions in `removed`.
  void fuse_action(std::size_t begin, std::size_t end,
                   const std::vector<std::vector<std::uint32_t>>& in_block,
                   const std::vector<std::size_t>& uses, std::vector<bool>& removed);

  /// Buffers of a started transfer.
  struct StartedTransfer {
    std::optional<std::uint32_t> source;
    std::optional<std::uint32_t> destination;
  };

  Program program_;
  std::map<std::string, std::int32_t> persistent_index_;
  /// Transfers in flight, by handle.
  std::map<std::uint32_t, StartedTransfer> pending_;
  /// Handle of the transfer that fills a buffer, by buffer.
  std::map<std::uint32_t, std::uint32_t> filled_by_;
  /// First and last instruction that use a buffer, by buffer; -1 before use.
  std::vector<std::pair<std::int64_t, std::int64_t>> life_;
  /// Buffer in which a view lies, itself no view, by view of the arena.
  std::map<std::uint32_t, std::uint32_t> viewed_;
};

/// Finishes the programs of all devices: each waits for all its transfers at its end. Validates
/// them.
std::vector<Program> finish_all(std::vector<Emitter>& emitters);

}  // namespace weft::mesh
