#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "core/codec/codec.h"
#include "core/graph/graph.h"
#include "core/tensor/region.h"
#include "mesh/schedule/schedule.h"
#include "transfer/flow/device_part.h"
#include "transfer/nccl/device_operations.h"
#include "transfer/nccl/operation_order.h"

namespace weft::mesh {

enum class MemoryKind : std::uint8_t {
  kDevice,
  kHost,  ///< Host memory: norms and copies of the state.
};

/// Memory block that outlives a step and that programs share by name: parameters, working copies,
/// gradients, optimizer moments, losses.
struct PersistentBlock {
  std::string name;
  std::uint64_t bytes = 0;
  MemoryKind place = MemoryKind::kDevice;
  /// Prefix of the names of blocks with a program's losses, one per microbatch.
  static constexpr const char* kLosses = "losses/";
  bool has_losses() const { return name.starts_with(kLosses); }
  static constexpr auto fields =
      weft::fields(&PersistentBlock::name, &PersistentBlock::bytes, &PersistentBlock::place);
};

/// A tensor's place in memory: in a persistent block, or in the program's arena, where the compiler
/// reuses space by liveness.
struct Buffer {
  TensorType type;
  std::int32_t persistent = -1;  ///< Index into Program::persistents; -1 for the arena.
  /// Byte offset in the block or arena; a multiple of 64 in the arena.
  std::uint64_t offset = 0;
  static constexpr auto fields = weft::fields(&Buffer::type, &Buffer::persistent, &Buffer::offset);
};

/// Part of a data input that this device reads itself.
struct DataInput {
  std::string name;
  DType dtype = DType::kI32;
  Region region;  ///< Region of the microbatch.
  static constexpr auto fields =
      weft::fields(&DataInput::name, &DataInput::dtype, &DataInput::region);
};

/// Purpose of a transfer. Decides its lane in the trace and whether it counts as resharding.
enum class TransferPurpose : std::uint8_t { kReshard, kAllReduce, kInMesh, kNorm, kCheckpoint };

/// A transfer in which this device takes part. All participants know it by the same `op`.
struct Transfer {
  std::string name;  ///< "h1.out front->back"
  TransferPurpose kind = TransferPurpose::kReshard;
  std::uint32_t op = 0;
  /// This device's share of the transfer, for its executor: the transfer engine or the GPU library
  /// (NCCL). All participants hold the same alternative.
  std::variant<transfer::DevicePart, transfer::DeviceOperations> device_work;

  /// Returns the transfer engine's share; null if the GPU library carries the transfer.
  const transfer::DevicePart* engine_share() const {
    return std::get_if<transfer::DevicePart>(&device_work);
  }
  /// Returns the GPU library's share; null if the transfer engine carries the transfer.
  const transfer::DeviceOperations* library_share() const {
    return std::get_if<transfer::DeviceOperations>(&device_work);
  }
  /// Returns the bytes that this device holds (source) or wants (destination) of the transfer's one
  /// tensor.
  std::uint64_t source_bytes() const;
  std::uint64_t destination_bytes() const;
  /// Returns the planned payload bytes that this device sends or receives.
  std::uint64_t bytes_sent() const;
  std::uint64_t bytes_received() const;
  static constexpr auto fields =
      weft::fields(&Transfer::name, &Transfer::kind, &Transfer::op, &Transfer::device_work);
};

/// A parameter's shard on this device and the buffers of its optimizer state.
struct ProgramParameter {
  std::string name;
  std::uint32_t index = 0;       ///< Index into the graph's list of parameters.
  Shape shape;                   ///< Shape of the whole parameter, without padding.
  Region region;                 ///< Region that this device holds, in coordinates with padding.
  std::uint8_t initializer = 0;  ///< Initializer::Kind.
  double standard_deviation = 0;
  bool decay = true;
  bool counts_in_norm = true;  ///< True on exactly one of the devices that hold equal shards.
  std::uint32_t value = 0;     ///< Buffer of the f32 value that the optimizer updates.
  std::uint32_t gradient = 0;
  std::uint32_t first_moment = 0;
  std::uint32_t second_moment = 0;
  /// Buffer of the bf16 copy that ops read; -1 if ops read `value`.
  std::int32_t working_copy = -1;
  static constexpr auto fields =
      weft::fields(&ProgramParameter::name, &ProgramParameter::index, &ProgramParameter::shape,
                   &ProgramParameter::region, &ProgramParameter::initializer,
                   &ProgramParameter::standard_deviation, &ProgramParameter::decay,
                   &ProgramParameter::counts_in_norm, &ProgramParameter::value,
                   &ProgramParameter::gradient, &ProgramParameter::first_moment,
                   &ProgramParameter::second_moment, &ProgramParameter::working_copy);
};

// Instructions. A device runs them in order; only Wait blocks.

/// Marks the start of a schedule action, for the trace and for error messages.
struct BeginAction {
  std::int32_t stage = 0;
  ActionKind kind = ActionKind::kForward;
  std::int32_t microbatch = 0;
  /// True if this resumes an action: the second half of an S after the statistics exchange, the
  /// action that such a second half interrupted, or a member of an interleaved compound.
  bool resumes_action = false;
  static constexpr auto fields =
      weft::fields(&BeginAction::stage, &BeginAction::kind, &BeginAction::microbatch,
                   &BeginAction::resumes_action);
};
/// Ends the last action: what follows is work of the whole step.
struct EndActions {
  static constexpr std::tuple<> fields = {};
};
/// Runs an op on buffers.
struct Run {
  std::uint32_t op = 0;  ///< Index into Program::ops.
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  /// Bit i is set if output i is added to its buffer: gradients of the second and later
  /// microbatches.
  std::uint32_t accumulate = 0;
  static constexpr auto fields =
      weft::fields(&Run::op, &Run::inputs, &Run::outputs, &Run::accumulate);
};
/// Reads a data input of one microbatch.
struct Read {
  std::uint32_t input = 0;  ///< Index into Program::inputs.
  std::uint32_t buffer = 0;
  std::int32_t microbatch = 0;
  static constexpr auto fields = weft::fields(&Read::input, &Read::buffer, &Read::microbatch);
};
/// Starts this device's sends and receives of a transfer. Does not block.
struct Start {
  std::uint32_t transfer = 0;   ///< Index into Program::transfers.
  std::int32_t microbatch = 0;  ///< -1 for transfers that happen once per step.
  std::int32_t source = -1;     ///< Buffer, or -1.
  std::int32_t destination = -1;
  std::uint32_t handle = 0;  ///< Number of this execution within the program; Wait refers to it.
  static constexpr auto fields = weft::fields(&Start::transfer, &Start::microbatch, &Start::source,
                                              &Start::destination, &Start::handle);
};
/// Blocks until the transfer is complete: the source may be reused, and the destination is filled.
struct Wait {
  std::uint32_t handle = 0;
  static constexpr auto fields = weft::fields(&Wait::handle);
};
/// Adds a gradient that other ops also read, or a device's part of a reduced one, to its sum.
struct Accumulate {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  bool first = false;  ///< Copies instead of adding.
  static constexpr auto fields =
      weft::fields(&Accumulate::source, &Accumulate::destination, &Accumulate::first);
};
/// Writes the sum of squares of each gradient that this device counts (counts_in_norm) to a row of
/// f64, one entry per parameter of the graph.
struct Norm {
  std::uint32_t destination = 0;
  static constexpr auto fields = weft::fields(&Norm::destination);
};
/// Clips the gradients by the global norm and takes one AdamW step on every parameter.
struct Update {
  std::uint32_t norms = 0;  ///< Buffer of f64[devices, parameters]: the rows of all devices.
  static constexpr auto fields = weft::fields(&Update::norms);
};

using Instruction =
    std::variant<BeginAction, EndActions, Run, Read, Start, Wait, Accumulate, Norm, Update>;

/// All instructions of one device for one step, fixed before the first step. Result of compilation.
/// A value.
struct Program {
  std::string name;  ///< "train", "validate", "copy", "gather.0", "scatter.0", ...
  transfer::DeviceId device;
  std::string device_name;  ///< "front[0,1]"
  std::uint64_t arena_bytes = 0;
  std::vector<PersistentBlock> persistents;
  std::vector<Buffer> buffers;
  std::vector<Op> ops;
  std::vector<DataInput> inputs;
  std::vector<Transfer> transfers;
  std::vector<ProgramParameter> parameters;
  std::vector<Instruction> instructions;
  std::uint32_t num_handles = 0;
  /// Buffer with one f32 loss per microbatch; -1 if another device reports the loss.
  std::int32_t losses = -1;
  /// Order, shared by all devices, of the collective transfers that this program starts; see
  /// CollectiveQueue::begin().
  std::vector<transfer::OperationKey> collective_order;
  static constexpr auto fields =
      weft::fields(&Program::name, &Program::device, &Program::device_name, &Program::arena_bytes,
                   &Program::persistents, &Program::buffers, &Program::ops, &Program::inputs,
                   &Program::transfers, &Program::parameters, &Program::instructions,
                   &Program::num_handles, &Program::losses, &Program::collective_order);
};

/// Returns the device memory that the program's collective transfers need for packing, in bytes.
std::uint64_t collective_staging_bytes(const Program& program);

/// Prints an instruction, such as "run matmul(...)"; "the end of the step" past the last one.
std::string describe_instruction(const Program& program, std::size_t instruction);

/// Prints one line per instruction, such as "start 3 'h1.out front->back' of microbatch 2, sends 0
/// B, receives 128 KiB -> %14 f32[4,64,128] @0".
std::string to_string(const Program& program);

}  // namespace weft::mesh

template <>
struct weft::last_enumerator<weft::mesh::MemoryKind> {
  static constexpr auto kValue = weft::mesh::MemoryKind::kHost;
};
template <>
struct weft::last_enumerator<weft::mesh::TransferPurpose> {
  static constexpr auto kValue = weft::mesh::TransferPurpose::kCheckpoint;
};
