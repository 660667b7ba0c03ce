#include "mesh/program/emitter.h"

#include <algorithm>

#include "core/base/check.h"
#include "mesh/program/compile.h"

namespace weft::mesh {

Emitter::Emitter(std::string program_name, transfer::DeviceId device, std::string device_name) {
  program_.name = std::move(program_name);
  program_.device = device;
  program_.device_name = std::move(device_name);
}

std::int32_t Emitter::persistent(const std::string& name, std::uint64_t bytes, MemoryKind place) {
  const auto [at, inserted] = persistent_index_.try_emplace(name, program_.persistents.size());
  if (inserted) program_.persistents.push_back({name, bytes, place});
  WEFT_CHECK(program_.persistents[at->second].bytes == bytes, "{} with two sizes", name);
  return at->second;
}

std::uint32_t Emitter::add_persistent_buffer(std::int32_t persistent, std::uint64_t offset,
                                             TensorType type) {
  program_.buffers.push_back({std::move(type), persistent, offset});
  life_.emplace_back(-1, -1);
  return program_.buffers.size() - 1;
}

std::uint32_t Emitter::add_arena_buffer(TensorType type) {
  return add_persistent_buffer(-1, 0, std::move(type));
}

std::uint32_t Emitter::add_view(std::uint32_t buffer, std::uint64_t offset, TensorType type) {
  const Buffer& whole = program_.buffers[buffer];
  WEFT_CHECK(offset + type.bytes() <= whole.type.bytes(), "a view ends behind its buffer");
  const bool in_arena = whole.persistent < 0;
  const std::uint32_t view =
      add_persistent_buffer(whole.persistent, whole.offset + offset, std::move(type));
  const auto viewed = viewed_.find(buffer);
  if (in_arena) viewed_[view] = viewed != viewed_.end() ? viewed->second : buffer;
  return view;
}

std::uint32_t Emitter::add_transfer(Transfer transfer) {
  program_.transfers.push_back(std::move(transfer));
  return program_.transfers.size() - 1;
}

std::uint32_t Emitter::add_input(DataInput input) {
  program_.inputs.push_back(std::move(input));
  return program_.inputs.size() - 1;
}

void Emitter::append(Instruction instruction) {
  program_.instructions.push_back(std::move(instruction));
}

void Emitter::use(std::uint32_t buffer) {
  const std::int64_t now = program_.instructions.size();
  if (life_[buffer].first < 0) life_[buffer].first = now;
  extend_life(buffer, now);
  if (const auto whole = viewed_.find(buffer); whole != viewed_.end()) use(whole->second);
}

void Emitter::extend_life(std::uint32_t buffer, std::int64_t instruction) {
  std::int64_t& last = life_[buffer].second;
  last = std::max(last, instruction);
  if (const auto whole = viewed_.find(buffer); whole != viewed_.end())
    extend_life(whole->second, instruction);
}

void Emitter::await_buffer(std::uint32_t buffer) {
  if (const auto found = filled_by_.find(buffer); found != filled_by_.end()) wait(found->second);
  if (const auto whole = viewed_.find(buffer); whole != viewed_.end()) await_buffer(whole->second);
}

std::uint32_t Emitter::index_of(const Op& op) {
  std::uint32_t index = 0;
  while (index < program_.ops.size() && program_.ops[index] != op) ++index;
  if (index == program_.ops.size()) program_.ops.push_back(op);
  return index;
}

void Emitter::begin(const BeginAction& action) { append(action); }

void Emitter::end_actions() { append(EndActions{}); }

void Emitter::run(const Op& op, std::vector<std::uint32_t> inputs,
                  std::vector<std::uint32_t> outputs, bool accumulate) {
  for (const std::uint32_t buffer : inputs) await_buffer(buffer);
  for (const std::uint32_t buffer : inputs) use(buffer);
  for (const std::uint32_t buffer : outputs) use(buffer);
  const std::uint32_t added = accumulate ? (1u << outputs.size()) - 1 : 0;
  append(Run{index_of(op), std::move(inputs), std::move(outputs), added});
}

void Emitter::read(std::uint32_t input, std::uint32_t buffer, int microbatch) {
  use(buffer);
  append(Read{input, buffer, microbatch});
}

void Emitter::accumulate(std::uint32_t source, std::uint32_t destination, bool first) {
  await_buffer(source);
  use(source);
  use(destination);
  append(Accumulate{source, destination, first});
}

void Emitter::norm(std::uint32_t destination) {
  use(destination);
  append(Norm{destination});
}

void Emitter::update(std::uint32_t norms) {
  await_buffer(norms);
  use(norms);
  append(Update{norms});
}

std::uint32_t Emitter::start(std::uint32_t transfer, int microbatch,
                             std::optional<std::uint32_t> source,
                             std::optional<std::uint32_t> destination) {
  if (source) await_buffer(*source);
  const std::uint32_t handle = program_.num_handles++;
  if (source) use(*source);
  if (destination) {
    use(*destination);
    filled_by_[*destination] = handle;
  }
  pending_[handle] = {source, destination};
  append(Start{transfer, microbatch, source ? static_cast<std::int32_t>(*source) : -1,
               destination ? static_cast<std::int32_t>(*destination) : -1, handle});
  return handle;
}

void Emitter::wait(std::uint32_t handle) {
  const auto found = pending_.find(handle);
  if (found == pending_.end()) return;
  const StartedTransfer pending = found->second;
  pending_.erase(found);
  if (pending.source) use(*pending.source);
  if (pending.destination) {
    use(*pending.destination);
    filled_by_.erase(*pending.destination);
  }
  append(Wait{handle});
}

void Emitter::wait_for_all() {
  while (!pending_.empty()) wait(pending_.begin()->first);
}

Program Emitter::finish() {
  WEFT_CHECK(pending_.empty(), "{} transfers are never waited for", pending_.size());
  fuse_runs();
  std::vector<Lifetime> lives;
  std::vector<std::size_t> buffers;
  for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
    if (program_.buffers[i].persistent >= 0 || life_[i].first < 0 || viewed_.contains(i)) continue;
    lives.push_back({program_.buffers[i].type.bytes(), life_[i].first, life_[i].second});
    buffers.push_back(i);
  }
  const ArenaPlan arena = plan_arena(lives);
  for (std::size_t i = 0; i < buffers.size(); ++i)
    program_.buffers[buffers[i]].offset = arena.offsets[i];
  // Offsets of views count from the begin of their buffers until now.
  for (const auto& [view, whole] : viewed_)
    program_.buffers[view].offset += program_.buffers[whole].offset;
  program_.arena_bytes = arena.bytes;
  return std::move(program_);
}

std::vector<Program> finish_all(std::vector<Emitter>& emitters) {
  std::vector<Program> programs;
  for (Emitter& emitter : emitters) {
    emitter.wait_for_all();
    programs.push_back(emitter.finish());
  }
  validate(programs);
  return programs;
}

}  // namespace weft::mesh
