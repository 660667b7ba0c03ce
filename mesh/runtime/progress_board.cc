#include "mesh/runtime/progress_board.h"

#include <utility>

namespace weft::mesh {

void ProgressBoard::begin(std::shared_ptr<const Program> program, std::uint64_t run) {
  const std::lock_guard lock(mutex_);
  at_.position = {program->name, run, 0, std::nullopt};
  program_ = std::move(program);
  waits_at_.reset();
  ++at_.finished;
}

void ProgressBoard::enter(std::size_t instruction, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (!at_.inside || at_.position.instruction != instruction) since_ = now;
  at_.inside = true;
  at_.position.instruction = instruction;
}

void ProgressBoard::report_finished() {
  const std::lock_guard lock(mutex_);
  ++at_.finished;
}

void ProgressBoard::device_came_further(TimePoint now) {
  const std::lock_guard lock(mutex_);
  ++at_.finished;
  since_ = now;
}

void ProgressBoard::report_blocked(std::size_t instruction,
                                   std::optional<transfer::OperationKey> collective, bool works,
                                   TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (waits_at_ != instruction) waits_since_ = now;
  waits_at_ = instruction;
  at_.position.instruction = instruction;
  at_.position.collective = collective;
  at_.inside = works;
}

void ProgressBoard::enter_handler(const char* name, TimePoint now) {
  const std::lock_guard lock(mutex_);
  at_.handler = name;
  at_.inside = true;
  since_ = now;
}

void ProgressBoard::leave_handler() {
  const std::lock_guard lock(mutex_);
  at_.handler.clear();
  at_.inside = false;
  ++at_.finished;
}

void ProgressBoard::set_engine(std::weak_ptr<const transfer::TransferEngine> engine) {
  const std::lock_guard lock(mutex_);
  engine_ = std::move(engine);
}

ProgressBoard::WaitState ProgressBoard::wait_state(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return {program_, waits_at_ ? in_seconds(now - waits_since_) : 0};
}

DeviceProgress ProgressBoard::read(TimePoint now) const {
  DeviceProgress progress;
  std::shared_ptr<const transfer::TransferEngine> engine;
  {
    const std::lock_guard lock(mutex_);
    progress = at_;
    if (at_.inside) progress.inside_seconds = in_seconds(now - since_);
    engine = engine_.lock();
  }
  if (!engine) return progress;
  const transfer::EngineCounters counters = engine->counters();
  for (const auto& [peer, of_peer] : counters.peers)
    progress.moved_bytes += of_peer.bytes_sent + of_peer.bytes_received;
  progress.arriving = counters.chunks_arriving;
  progress.network_bytes = engine->network_bytes_received();
  return progress;
}

}  // namespace weft::mesh
