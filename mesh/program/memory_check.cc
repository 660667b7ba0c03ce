#include "mesh/program/memory_check.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace weft::mesh {
namespace {

/// Bytes of the arena or of a persistent block.
struct Place {
  std::int32_t persistent = -1;
  std::uint64_t begin = 0, end = 0;
  bool overlaps(const Place& other) const { return persistent == other.persistent && begin < other.end && other.begin < end; }
};

/// Goes through a program and keeps what its transfers under way read and write.
class MemoryCheck {
 public:
  explicit MemoryCheck(const Program& program) : program_(program) {}

  void run() {
    for (; at_ < program_.instructions.size(); ++at_)
      std::visit([&](const auto& instruction) { visit(instruction); }, program_.instructions[at_]);
  }

 private:
  struct Transferring {
    std::optional<Place> source, destination;
    std::uint32_t transfer = 0;
  };

  void visit(const Begin&) {}
  void visit(const Run& run) {
    for (const std::uint32_t input : run.inputs) read(input);
    for (const std::uint32_t output : run.outputs) write(output);
  }
  void visit(const Read& read) { write(read.buffer); }
  void visit(const Accumulate& accumulate) {
    read(accumulate.source);
    write(accumulate.destination);
  }
  void visit(const Norm& norm) {
    for (const ProgramParameter& parameter : program_.parameters) read(parameter.gradient);
    write(norm.destination);
  }
  void visit(const Update& update) {
    read(update.norms);
    for (const ProgramParameter& parameter : program_.parameters) {
      for (const std::uint32_t buffer : {parameter.gradient, parameter.value, parameter.first_moment, parameter.second_moment})
        write(buffer);
      if (parameter.working >= 0) write(static_cast<std::uint32_t>(parameter.working));
    }
  }
  void visit(const Start& start) {
    Transferring transferring{{}, {}, start.transfer};
    if (start.source >= 0) {
      read(static_cast<std::uint32_t>(start.source));
      transferring.source = place(static_cast<std::uint32_t>(start.source));
    }
    if (start.destination >= 0) {
      write(static_cast<std::uint32_t>(start.destination));
      transferring.destination = place(static_cast<std::uint32_t>(start.destination));
    }
    under_way_[start.handle] = transferring;
  }
  void visit(const Wait& wait) { under_way_.erase(wait.handle); }

  Place place(std::uint32_t index) const {
    const Buffer& buffer = program_.buffers[index];
    return {buffer.persistent, buffer.offset, buffer.offset + buffer.type.bytes()};
  }

  void read(std::uint32_t buffer) const {
    const Place touched = place(buffer);
    for (const auto& [handle, other] : under_way_) {
      if (other.destination && other.destination->overlaps(touched)) fail("reads", buffer, "fills", other.transfer);
    }
  }

  void write(std::uint32_t buffer) const {
    const Place touched = place(buffer);
    for (const auto& [handle, other] : under_way_) {
      if (other.destination && other.destination->overlaps(touched)) fail("writes", buffer, "fills", other.transfer);
      if (other.source && other.source->overlaps(touched)) fail("writes", buffer, "still reads", other.transfer);
    }
  }

  [[noreturn]] void fail(std::string_view does, std::uint32_t buffer, std::string_view while_it, std::uint32_t transfer) const {
    throw_error(ErrorCode::kInternal, "program '{}': instruction {} of {} {} %{}, which '{}' {} at that time", program_.name, at_,
                program_.device_name, does, buffer, program_.transfers[transfer].name, while_it);
  }

  const Program& program_;
  std::size_t at_ = 0;
  std::map<std::uint32_t, Transferring> under_way_;  ///< By handle.
};

}  // namespace

void check_memory(const Program& program) { MemoryCheck(program).run(); }

}  // namespace weft::mesh
