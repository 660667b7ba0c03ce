#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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

enum class MemoryPlace : std::uint8_t {
  kDevice,
  kHost,  ///< The host computes with it: norms.
};

/// Memory that outlives a step and that programs share by name: parameters, working copies,
/// gradients, optimizer moments, losses.
struct Persistent {
  std::string name;
  std::uint64_t bytes = 0;
  MemoryPlace place = MemoryPlace::kDevice;
  static constexpr auto fields =
      weft::fields(&Persistent::name, &Persistent::bytes, &Persistent::place);
};

/// A tensor in memory: in a persistent block, or in the program's arena, where the compiler reuses
/// space by liveness.
struct Buffer {
  TensorType type;
  std::int32_t persistent = -1;  ///< Index into Program::persistents; -1 for the arena.
  /// Bytes from the start of the block or arena; a multiple of 64 in the arena.
  std::uint64_t offset = 0;
  static constexpr auto fields = weft::fields(&Buffer::type, &Buffer::persistent, &Buffer::offset);
};

/// A part of a data input that this device reads itself.
struct DataInput {
  std::string name;
  DType dtype = DType::kI32;
  Region region;  ///< Of the microbatch.
  static constexpr auto fields =
      weft::fields(&DataInput::name, &DataInput::dtype, &DataInput::region);
};

/// What a transfer is for; decides its lane in the trace and whether it counts as resharding.
enum class TransferKind : std::uint8_t { kReshard, kAllReduce, kInMesh, kNorm, kCheckpoint };

/// A transfer in which this device takes part. All participants know it by the same `op`.
struct Transfer {
  std::string name;  ///< "h1.out front->back"
  TransferKind kind = TransferKind::kReshard;
  std::uint32_t op = 0;
  /// What this device does of it, as whoever executes it wants to be told: the transfer engine, or
  /// the library of the GPUs. The same alternative on all devices that take part.
  std::variant<transfer::DevicePart, transfer::DeviceOperations> work;

  /// Of the engine's; null for the library's.
  const transfer::DevicePart* part() const { return std::get_if<transfer::DevicePart>(&work); }
  /// Of the library's; null for the engine's.
  const transfer::DeviceOperations* operations() const {
    return std::get_if<transfer::DeviceOperations>(&work);
  }
  /// Of the one tensor that a transfer of a program moves, as this device holds and wants it.
  std::uint64_t source_bytes() const;
  std::uint64_t destination_bytes() const;
  /// Payload, as the plan counts it.
  std::uint64_t bytes_sent() const;
  std::uint64_t bytes_received() const;
  static constexpr auto fields =
      weft::fields(&Transfer::name, &Transfer::kind, &Transfer::op, &Transfer::work);
};

/// The place of a parameter on this device.
struct ProgramParameter {
  std::string name;
  std::uint32_t index = 0;       ///< In the graph's list of parameters.
  Shape shape;                   ///< Of the whole parameter, without padding.
  Region region;                 ///< What this device holds, with padding.
  std::uint8_t initializer = 0;  ///< Initializer::Kind.
  double standard_deviation = 0;
  bool decay = true;
  bool counts_in_norm = true;  ///< Exactly one of the devices that hold equal shards counts it.
  std::uint32_t value = 0;     ///< Buffers, of f32: what the optimizer updates.
  std::uint32_t gradient = 0;
  std::uint32_t first_moment = 0;
  std::uint32_t second_moment = 0;
  /// The buffer of the bf16 copy of the value that ops read; -1: they read the value itself.
  std::int32_t working = -1;
  static constexpr auto fields =
      weft::fields(&ProgramParameter::name, &ProgramParameter::index, &ProgramParameter::shape,
                   &ProgramParameter::region, &ProgramParameter::initializer,
                   &ProgramParameter::standard_deviation, &ProgramParameter::decay,
                   &ProgramParameter::counts_in_norm, &ProgramParameter::value,
                   &ProgramParameter::gradient, &ProgramParameter::first_moment,
                   &ProgramParameter::second_moment, &ProgramParameter::working);
};

// Instructions. A program is run in order; only Wait blocks.

/// Marks where an action of the schedule begins: for the trace and for error messages.
struct Begin {
  std::int32_t stage = 0;
  ActionKind kind = ActionKind::kForward;
  std::int32_t microbatch = 0;
  /// It goes on with an action that began before: with what an S leaves for when its devices have
  /// exchanged their statistics, or with an action amid which that came.
  bool goes_on = false;
  static constexpr auto fields =
      weft::fields(&Begin::stage, &Begin::kind, &Begin::microbatch, &Begin::goes_on);
};
/// Runs an op on buffers.
struct Run {
  std::uint32_t op = 0;  ///< Index into Program::ops.
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  /// Outputs are added to what is there: gradients of the second and later microbatches.
  bool accumulate = false;
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
/// Begins this device's part in a transfer: sends, receives or both. Does not block.
struct Start {
  std::uint32_t transfer = 0;   ///< Index into Program::transfers.
  std::int32_t microbatch = 0;  ///< -1 for transfers that happen once per step.
  std::int32_t source = -1;     ///< Buffer, or -1.
  std::int32_t destination = -1;
  std::uint32_t handle = 0;  ///< Number of this transfer in this program; Wait names it.
  static constexpr auto fields = weft::fields(&Start::transfer, &Start::microbatch, &Start::source,
                                              &Start::destination, &Start::handle);
};
/// Blocks until the transfer is complete: then the source may be reused, and the destination is
/// full.
struct Wait {
  std::uint32_t handle = 0;
  static constexpr auto fields = weft::fields(&Wait::handle);
};
/// Adds a gradient that other ops use too into its accumulator.
struct Accumulate {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  bool first = false;  ///< Copies instead of adding.
  static constexpr auto fields =
      weft::fields(&Accumulate::source, &Accumulate::destination, &Accumulate::first);
};
/// Writes the sum of squares of each gradient that this device counts into a row of f64, one entry
/// per parameter of the graph.
struct Norm {
  std::uint32_t destination = 0;
  static constexpr auto fields = weft::fields(&Norm::destination);
};
/// Clips by the global norm and takes one AdamW step on every parameter.
struct Update {
  std::uint32_t norms = 0;  ///< f64[devices, parameters]: the rows of all devices.
  static constexpr auto fields = weft::fields(&Update::norms);
};

using Instruction = std::variant<Begin, Run, Read, Start, Wait, Accumulate, Norm, Update>;

/// Everything one device does in one step, fixed before the first step: the result of compilation.
/// A value.
struct Program {
  std::string name;  ///< "train", "validate", "copy", "gather.0", "scatter.0", ...
  transfer::DeviceId device;
  std::string device_name;  ///< "front[0,1]"
  std::uint64_t arena_bytes = 0;
  std::vector<Persistent> persistents;
  std::vector<Buffer> buffers;
  std::vector<Op> ops;
  std::vector<DataInput> inputs;
  std::vector<Transfer> transfers;
  std::vector<ProgramParameter> parameters;
  std::vector<Instruction> instructions;
  std::uint32_t num_handles = 0;
  /// Buffer with one f32 loss per microbatch, or -1 where the loss is another device's to report.
  std::int32_t losses = -1;
  /// The transfers by collectives that it starts, in their order for all devices: see
  /// CollectiveQueue::begin().
  std::vector<transfer::OperationKey> collective_order;
  static constexpr auto fields =
      weft::fields(&Program::name, &Program::device, &Program::device_name, &Program::arena_bytes,
                   &Program::persistents, &Program::buffers, &Program::ops, &Program::inputs,
                   &Program::transfers, &Program::parameters, &Program::instructions,
                   &Program::num_handles, &Program::losses, &Program::collective_order);
};

/// Device memory that its transfers by collectives pack into.
std::uint64_t collective_staging_bytes(const Program& program);

/// "run matmul(...)", without its indentation; of the end "the end of the step".
std::string describe_instruction(const Program& program, std::size_t instruction);

/// One line per instruction: "start 3 recv 'h1.out front->back' microbatch 2 -> %14 f32[4,64,128]".
std::string to_string(const Program& program);

}  // namespace weft::mesh

template <>
struct weft::last_enumerator<weft::mesh::MemoryPlace> {
  static constexpr auto kValue = weft::mesh::MemoryPlace::kHost;
};
template <>
struct weft::last_enumerator<weft::mesh::TransferKind> {
  static constexpr auto kValue = weft::mesh::TransferKind::kCheckpoint;
};
