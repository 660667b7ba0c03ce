#include "mesh/program/capture_segments.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <variant>

namespace weft::mesh {
namespace {

using Work = std::vector<std::uint64_t>;

/// Encodes instructions as numbers. Equal work on tensors of equal types in the same memory has
/// equal numbers.
class WorkWriter {
 public:
  explicit WorkWriter(const Program& program) {
    std::map<std::tuple<std::int32_t, std::uint64_t, DType, Shape>, std::uint64_t> places;
    for (const Buffer& buffer : program.buffers) {
      const auto place =
          std::tuple(buffer.persistent, buffer.offset, buffer.type.dtype, buffer.type.shape);
      place_of_buffer_.push_back(places.try_emplace(place, places.size()).first->second);
      is_loss_.push_back(buffer.persistent >= 0 &&
                         program.persistents[buffer.persistent].has_losses());
    }
    for (const Op& op : program.ops) {
      const auto first = std::find(program.ops.begin(), program.ops.end(), op);
      first_equal_op_.push_back(first - program.ops.begin());
    }
  }

  /// Appends the instruction's encoding to `work`. Returns false if segments cannot contain it.
  bool append(const Instruction& instruction, Work& work) const {
    if (const auto* run = std::get_if<Run>(&instruction)) {
      if (std::ranges::any_of(run->outputs, [&](auto buffer) { return is_loss_[buffer]; }))
        return false;
      work.insert(work.end(), {0, first_equal_op_[run->op], run->accumulate, run->inputs.size(),
                               run->outputs.size()});
      for (const std::uint32_t buffer : run->inputs) work.push_back(place_of_buffer_[buffer]);
      for (const std::uint32_t buffer : run->outputs) work.push_back(place_of_buffer_[buffer]);
      return true;
    }
    if (const auto* accumulate = std::get_if<Accumulate>(&instruction)) {
      work.insert(work.end(), {1, accumulate->first, place_of_buffer_[accumulate->source],
                               place_of_buffer_[accumulate->destination]});
      return true;
    }
    return false;
  }

 private:
  std::vector<std::uint64_t> place_of_buffer_;
  std::vector<bool> is_loss_;  ///< True for a loss; by buffer.
  std::vector<std::uint64_t> first_equal_op_;
};

}  // namespace

std::vector<CaptureSegment> find_capture_segments(const Program& program) {
  const WorkWriter writer(program);
  std::vector<CaptureSegment> segments;
  std::map<Work, std::uint32_t> known;
  const std::size_t size = program.instructions.size();
  for (std::size_t begin = 0; begin < size; ++begin) {
    Work work;
    std::size_t end = begin;
    while (end < size && writer.append(program.instructions[end], work)) ++end;
    if (end - begin < 2) continue;
    const auto number = known.try_emplace(std::move(work), known.size()).first->second;
    segments.push_back({begin, end, number});
    begin = end;
  }
  return segments;
}

}  // namespace weft::mesh
