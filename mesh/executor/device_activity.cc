#include "mesh/executor/device_activity.h"

#include <fmt/format.h>

#include "mesh/program/stall.h"

namespace weft::mesh {
namespace {

std::uint64_t key_of(const transfer::OperationKey& key) {
  return std::uint64_t{key.op} << 32 | static_cast<std::uint32_t>(key.microbatch);
}

}  // namespace

actors::ActorActivity device_activity(const ProgressBoard& board, TimePoint now) {
  actors::ActorActivity activity;
  const DeviceProgress progress = board.read(now);
  const ProgressBoard::WaitState wait = board.wait_state(now);
  if (!progress.handler.empty()) activity.seconds = progress.inside_seconds;
  if (wait.program == nullptr) return activity;
  const Program& program = *wait.program;
  activity.number = program.device.value();
  activity.phase = progress.position.execution_number;
  const DevicePosition at =
      find_device_position(program, progress.position.instruction, progress.position.collective);
  for (const transfer::OperationKey& key : at.ahead) activity.pending_keys.push_back(key_of(key));
  const bool done = progress.position.instruction >= program.instructions.size();
  if (done && !at.waits_for) return activity;
  activity.text = at.actions;
  activity.seconds = progress.inside ? progress.inside_seconds : wait.waited_seconds;
  if (progress.inside) {
    activity.text +=
        fmt::format(": inside {}", describe_instruction(program, progress.position.instruction));
  } else if (at.waits_for) {
    activity.wait = actors::ActivityWait{at.transfer, key_of(*at.waits_for), {}};
    for (const transfer::DeviceId device : at.with)
      activity.wait->other_participants.push_back(device.value());
  }
  return activity;
}

}  // namespace weft::mesh
