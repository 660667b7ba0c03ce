#include "mesh/executor/checkpoint_endpoint.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/log/log.h"
#include "mesh/program/checkpoint_programs.h"
#include "mesh/runtime/wake_flag.h"

namespace weft::mesh {

CheckpointEndpoint::CheckpointEndpoint(const DeviceSetup& setup)
    : engine_(setup, batches_, machine_hardware(), std::make_shared<ProgressBoard>(),
              Log::standard_error(LogLevel::kWarning)) {}

CheckpointEndpoint::~CheckpointEndpoint() = default;

void CheckpointEndpoint::NoBatches::read(std::string_view input, Split, std::uint64_t, int, int,
                                         const Region&, std::span<std::byte>) {
  throw_error(ErrorCode::kInternal, "the driver was asked to read '{}'", input);
}

std::span<float> CheckpointEndpoint::checkpoint_buffer() {
  const std::span<std::byte> bytes = engine_.block(kCheckpointBuffer);
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

void CheckpointEndpoint::run(const StepRequest& request, const std::function<void()>& on_poll) {
  const auto wake = std::make_shared<WakeFlag>();
  const auto interpreter = engine_.begin(request, [wake] { wake->set(); });
  std::optional<Error> failure;
  try {
    while (interpreter->advance() == Interpreter::Progress::kBlocked) {
      wake->wait(std::chrono::milliseconds(20));
      on_poll();
    }
  } catch (...) {
    failure = current_error();
  }
  if (failure) {
    engine_.abandon(*interpreter, *failure);
    throw std::move(*failure);
  }
  interpreter->finish();
}

}  // namespace weft::mesh
