#include "mesh/program/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace weft::mesh {
namespace {

/// Byte range of the arena or of a persistent block.
struct MemoryRange {
  std::int32_t persistent = -1;
  std::uint64_t begin = 0, end = 0;
};

/// Byte ranges of transfers in flight, sorted by address. Thousands may be in flight at a time.
class InFlightRanges {
 public:
  void add(const MemoryRange& place, std::uint32_t handle) {
    ends_[{place.persistent, place.begin, handle}] = place.end;
    longest_ = std::max(longest_, place.end - place.begin);
  }
  void remove(const MemoryRange& place, std::uint32_t handle) {
    ends_.erase({place.persistent, place.begin, handle});
  }
  /// Returns the lowest handle whose range overlaps `touched`.
  std::optional<std::uint32_t> first_overlapping(const MemoryRange& touched) const {
    std::optional<std::uint32_t> first;
    const std::uint64_t from = touched.begin - std::min(touched.begin, longest_);
    for (auto at = ends_.lower_bound({touched.persistent, from, 0});
         at != ends_.end() && at->first < Key(touched.persistent, touched.end, 0); ++at) {
      if (at->second > touched.begin)
        first = std::min(first.value_or(std::get<2>(at->first)), std::get<2>(at->first));
    }
    return first;
  }

 private:
  // Persistent block, begin, handle.
  using Key = std::tuple<std::int32_t, std::uint64_t, std::uint32_t>;
  std::map<Key, std::uint64_t> ends_;
  std::uint64_t longest_ = 0;
};

/// Walks through a program and tracks the memory of its transfers in flight.
class MemoryCheck {
 public:
  explicit MemoryCheck(const Program& program) : program_(program) {}

  void run() {
    for (; at_ < program_.instructions.size(); ++at_)
      std::visit([&](const auto& instruction) { visit(instruction); }, program_.instructions[at_]);
  }

 private:
  struct Transferring {
    std::optional<MemoryRange> source, destination;
    std::uint32_t transfer = 0;
  };

  void visit(const BeginAction&) {}
  void visit(const EndActions&) {}
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
      for (const std::uint32_t buffer :
           {parameter.gradient, parameter.value, parameter.first_moment, parameter.second_moment})
        write(buffer);
      if (parameter.working_copy >= 0) write(parameter.working_copy);
    }
  }
  void visit(const Start& start) {
    Transferring transferring{{}, {}, start.transfer};
    if (start.source >= 0) {
      read(start.source);
      transferring.source = place(start.source);
    }
    if (start.destination >= 0) {
      write(start.destination);
      transferring.destination = place(start.destination);
    }
    if (transferring.source) sources_.add(*transferring.source, start.handle);
    if (transferring.destination) destinations_.add(*transferring.destination, start.handle);
    under_way_[start.handle] = transferring;
  }
  void visit(const Wait& wait) {
    const auto found = under_way_.find(wait.handle);
    if (found == under_way_.end()) return;
    if (found->second.source) sources_.remove(*found->second.source, wait.handle);
    if (found->second.destination) destinations_.remove(*found->second.destination, wait.handle);
    under_way_.erase(found);
  }

  MemoryRange place(std::uint32_t index) const {
    const Buffer& buffer = program_.buffers[index];
    return {buffer.persistent, buffer.offset, buffer.offset + buffer.type.bytes()};
  }

  void read(std::uint32_t buffer) const {
    if (const auto fills = destinations_.first_overlapping(place(buffer)))
      fail("reads", buffer, "fills", *fills);
  }

  void write(std::uint32_t buffer) const {
    const MemoryRange touched = place(buffer);
    const auto fills = destinations_.first_overlapping(touched),
               reads = sources_.first_overlapping(touched);
    if (fills && (!reads || *fills <= *reads)) fail("writes", buffer, "fills", *fills);
    if (reads) fail("writes", buffer, "still reads", *reads);
  }

  [[noreturn]] void fail(std::string_view does, std::uint32_t buffer, std::string_view while_it,
                         std::uint32_t handle) const {
    throw_error(ErrorCode::kInternal,
                "program '{}': instruction {} of {} {} %{} while transfer '{}' {} it",
                program_.name, at_, program_.device_name, does, buffer,
                program_.transfers[under_way_.at(handle).transfer].name, while_it);
  }

  const Program& program_;
  std::size_t at_ = 0;
  std::unordered_map<std::uint32_t, Transferring> under_way_;  ///< Transfers in flight, by handle.
  InFlightRanges sources_, destinations_;                      ///< Ranges of transfers in flight.
};

}  // namespace

void check_memory(const Program& program) { MemoryCheck(program).run(); }

}  // namespace weft::mesh
