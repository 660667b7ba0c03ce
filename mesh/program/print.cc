#include <fmt/format.h>

#include <algorithm>

#include "core/base/units.h"
#include "mesh/program/program.h"

namespace weft::mesh {
namespace {

std::string operand(const Program& program, std::int64_t buffer) {
  const Buffer& found = program.buffers[buffer];
  const std::string place = found.persistent >= 0 ? program.persistents[found.persistent].name
                                                  : fmt::format("@{}", found.offset);
  return fmt::format("%{} {} {}", buffer, to_string(found.type), place);
}

std::string operands(const Program& program, const std::vector<std::uint32_t>& buffers) {
  std::string text;
  for (const std::uint32_t buffer : buffers)
    text += (text.empty() ? "" : ", ") + operand(program, buffer);
  return text;
}

/// Prints an instruction, indented under its action.
struct Printer {
  const Program& program;

  std::string operator()(const BeginAction& begin) const {
    return "  " + to_string(Action{begin.stage, begin.kind, begin.microbatch}) +
           (begin.resumes_action ? ", resumed:" : ":");
  }
  std::string operator()(const Run& run) const {
    std::vector<std::uint32_t> written, added;
    for (std::size_t i = 0; i < run.outputs.size(); ++i)
      ((run.accumulate >> i & 1) != 0 ? added : written).push_back(run.outputs[i]);
    std::string text = fmt::format("    run {}({})", to_string(program.ops[run.op]),
                                   operands(program, run.inputs));
    if (!written.empty()) text += " -> " + operands(program, written);
    if (!added.empty()) text += " +=> " + operands(program, added);
    return text;
  }
  std::string operator()(const EndActions&) const { return "end of the actions"; }
  std::string operator()(const Read& read) const {
    return fmt::format("    read '{}'{} of microbatch {} -> {}", program.inputs[read.input].name,
                       to_string(program.inputs[read.input].region), read.microbatch,
                       operand(program, read.buffer));
  }
  std::string operator()(const Start& start) const {
    const Transfer& transfer = program.transfers[start.transfer];
    std::string text = fmt::format("    start {} '{}'", start.handle, transfer.name);
    if (start.microbatch >= 0) text += fmt::format(" of microbatch {}", start.microbatch);
    text += fmt::format(", sends {}, receives {}", format_bytes(transfer.bytes_sent()),
                        format_bytes(transfer.bytes_received()));
    if (transfer.library_share() != nullptr) text += " by device collectives";
    if (start.source >= 0) text += ": " + operand(program, start.source);
    if (start.destination >= 0) text += " -> " + operand(program, start.destination);
    return text;
  }
  std::string operator()(const Wait& wait) const { return fmt::format("    wait {}", wait.handle); }
  std::string operator()(const Accumulate& accumulate) const {
    return fmt::format("    accumulate {} {} {}", operand(program, accumulate.source),
                       accumulate.first ? "->" : "+=>", operand(program, accumulate.destination));
  }
  std::string operator()(const Norm& norm) const {
    return "    norm -> " + operand(program, norm.destination);
  }
  std::string operator()(const Update& update) const {
    return fmt::format("    update {} parameters by {}", program.parameters.size(),
                       operand(program, update.norms));
  }
};

}  // namespace

std::uint64_t Transfer::source_bytes() const {
  return engine_share() != nullptr ? engine_share()->tensors.front().source_bytes()
                                   : library_share()->source_bytes.front();
}

std::uint64_t Transfer::destination_bytes() const {
  return engine_share() != nullptr ? engine_share()->tensors.front().destination_bytes()
                                   : library_share()->destination_bytes.front();
}

std::uint64_t Transfer::bytes_sent() const {
  return std::visit([](const auto& of_device) { return of_device.bytes_sent(); }, device_work);
}

std::uint64_t Transfer::bytes_received() const {
  return std::visit([](const auto& of_device) { return of_device.bytes_received(); }, device_work);
}

std::uint64_t collective_staging_bytes(const Program& program) {
  std::uint64_t most = 0;
  for (const Transfer& transfer : program.transfers) {
    if (transfer.library_share() != nullptr)
      most = std::max(most, transfer.library_share()->staging_bytes);
  }
  return most;
}

std::string describe_instruction(const Program& program, std::size_t instruction) {
  if (instruction >= program.instructions.size()) return "the end of the step";
  const std::string text = std::visit(Printer{program}, program.instructions[instruction]);
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

std::string to_string(const Program& program) {
  std::uint64_t persistent = 0;
  for (const PersistentBlock& block : program.persistents) persistent += block.bytes;
  std::string text =
      fmt::format("program '{}' of {} (device {}): {} instructions, {} persistent, {} arena\n",
                  program.name, program.device_name, program.device, program.instructions.size(),
                  format_bytes(persistent), format_bytes(program.arena_bytes));
  for (const Instruction& instruction : program.instructions)
    text += std::visit(Printer{program}, instruction) + "\n";
  return text;
}

}  // namespace weft::mesh
