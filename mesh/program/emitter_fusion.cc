// Fuses ops within an action. Runs after all instructions are emitted, when all uses of the removed
// ops' outputs are known. Runs before memory is assigned, as some outputs need no memory then.
#include <algorithm>
#include <unordered_map>

#include "core/ops/fusion.h"
#include "mesh/program/emitter.h"

namespace weft::mesh {
namespace {

/// Buffers in each persistent block.
using BuffersByBlock = std::vector<std::vector<std::uint32_t>>;

BuffersByBlock buffers_by_block(const Program& program) {
  BuffersByBlock in_block(program.persistents.size());
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].persistent >= 0) in_block[program.buffers[i].persistent].push_back(i);
  return in_block;
}

/// Lists the buffers that an instruction reads and writes, for find_fusions(). A Wait lists none:
/// instructions that use the transferred buffer stay behind it.
struct Touched {
  const Program& program;
  const BuffersByBlock& in_block;
  const std::map<std::uint32_t, std::uint32_t>& viewed;  ///< Buffers in which views lie.

  ListedOp operator()(const BeginAction&) const { return {}; }
  ListedOp operator()(const EndActions&) const { return {}; }
  ListedOp operator()(const Run& run) const {
    // A copy is no part of a fusion, and may be from or to parts of other tensors' memory.
    const OpKind kind = program.ops[run.op].kind;
    if (kind == OpKind::kSlice || kind == OpKind::kConcat)
      return {nullptr, all_overlapping(run.inputs), all_overlapping(run.outputs)};
    return {&program.ops[run.op], run.inputs, run.outputs, run.accumulate};
  }
  ListedOp operator()(const Read& read) const { return {nullptr, {}, {read.buffer}}; }
  ListedOp operator()(const Start& start) const {
    ListedOp listed;
    if (start.source >= 0) listed.inputs = overlapping(start.source);
    if (start.destination >= 0) listed.outputs = overlapping(start.destination);
    return listed;
  }
  ListedOp operator()(const Wait&) const { return {}; }
  ListedOp operator()(const Accumulate& accumulate) const {
    return {nullptr, overlapping(accumulate.source), {accumulate.destination}};
  }
  ListedOp operator()(const Norm& norm) const { return {nullptr, {}, {norm.destination}}; }

  std::vector<std::uint32_t> all_overlapping(const std::vector<std::uint32_t>& buffers) const {
    std::vector<std::uint32_t> all;
    for (const std::uint32_t buffer : buffers) {
      const std::vector<std::uint32_t> one = overlapping(static_cast<std::int32_t>(buffer));
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  /// Returns the buffer, and others in the same memory: a transfer may move several tensors.
  std::vector<std::uint32_t> overlapping(std::int32_t buffer) const {
    std::vector<std::uint32_t> all{static_cast<std::uint32_t>(buffer)};
    const Buffer& moved = program.buffers[buffer];
    if (moved.persistent < 0) {
      if (const auto whole = viewed.find(all.front()); whole != viewed.end())
        all.push_back(whole->second);
      return all;
    }
    for (const std::uint32_t other : in_block[moved.persistent]) {
      const Buffer& one = program.buffers[other];
      const bool overlaps = one.offset < moved.offset + moved.type.bytes() &&
                            moved.offset < one.offset + one.type.bytes();
      if (overlaps && other != all.front()) all.push_back(other);
    }
    return all;
  }
  ListedOp operator()(const Update& update) const { return {nullptr, {update.norms}, {}}; }
};

template <typename Counts>
void count_uses(const ListedOp& listed, Counts& uses) {
  for (const std::uint32_t buffer : listed.inputs) ++uses[buffer];
  for (const std::uint32_t buffer : listed.outputs) ++uses[buffer];
}

}  // namespace

void Emitter::fuse_runs() {
  const BuffersByBlock in_block = buffers_by_block(program_);
  const Touched touched{program_, in_block, viewed_};
  std::vector<std::size_t> uses(program_.buffers.size(), 0);
  for (const Instruction& instruction : program_.instructions)
    count_uses(std::visit(touched, instruction), uses);
  std::vector<bool> removed(program_.instructions.size(), false);
  const std::size_t size = program_.instructions.size();
  for (std::size_t begin = 0, end = 0; begin < size; begin = end) {
    end = begin + 1;
    while (end < size && !std::holds_alternative<BeginAction>(program_.instructions[end])) ++end;
    fuse_action(begin, end, in_block, uses, removed);
  }
  std::vector<Instruction> left;
  left.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    if (!removed[i]) left.push_back(std::move(program_.instructions[i]));
  }
  program_.instructions = std::move(left);
}

void Emitter::fuse_action(std::size_t begin, std::size_t end,
                          const std::vector<std::vector<std::uint32_t>>& in_block,
                          const std::vector<std::size_t>& uses, std::vector<bool>& removed) {
  std::vector<ListedOp> list;
  list.reserve(end - begin);
  std::unordered_map<std::uint32_t, std::size_t> uses_here;
  for (std::size_t i = begin; i < end; ++i) {
    list.push_back(std::visit(Touched{program_, in_block, viewed_}, program_.instructions[i]));
    count_uses(list.back(), uses_here);
  }
  const ListedTensors tensors{
      [this](std::uint32_t buffer) -> const TensorType& { return program_.buffers[buffer].type; },
      [&](std::uint32_t buffer) {
        return program_.buffers[buffer].persistent >= 0 || uses_here.at(buffer) != uses[buffer];
      },
  };
  for (Fusion& fusion : find_fusions(list, tensors)) {
    const std::int64_t last = begin + fusion.last;
    // The inputs and outputs of removed ops live until the last op runs. Outputs that only a
    // removed op had are not needed.
    for (const std::vector<std::uint32_t>* buffers : {&fusion.inputs, &fusion.outputs}) {
      for (const std::uint32_t buffer : *buffers) extend_life(buffer, last);
    }
    for (const std::size_t at : fusion.removed) {
      removed[begin + at] = true;
      for (const std::uint32_t buffer : list[at].outputs) {
        if (std::find(fusion.outputs.begin(), fusion.outputs.end(), buffer) == fusion.outputs.end())
          life_[buffer] = {-1, -1};
      }
    }
    program_.instructions[last] = Run{index_of(fusion.op), std::move(fusion.inputs),
                                      std::move(fusion.outputs), fusion.accumulate};
  }
}

}  // namespace weft::mesh
