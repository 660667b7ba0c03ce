#include "mesh/group/driver_side.h"

#include <optional>
#include <utility>

#include "core/base/error.h"

namespace weft::mesh {

DriverSide::DriverSide(const DeviceSetup& setup) : engine_(setup, batches_) {}

DriverSide::~DriverSide() = default;

void DriverSide::NoBatches::read(std::string_view input, Split, std::uint64_t, int, int, const Region&, std::span<std::byte>) {
  throw_error(ErrorCode::kInternal, "the driver was asked to read '{}'", input);
}

std::span<float> DriverSide::block(const std::string& name) {
  const std::span<std::byte> bytes = engine_.block(name);
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

void DriverSide::run(const StepRequest& request, const std::function<void()>& look) {
  const auto bell = std::make_shared<Bell>();
  const auto interpreter = engine_.begin(request, [bell] {
    const std::lock_guard lock(bell->mutex);
    bell->rung = true;
    bell->changed.notify_one();
  });
  std::optional<Error> failure;
  try {
    while (interpreter->advance() == Interpreter::Progress::kBlocked) {
      std::unique_lock lock(bell->mutex);
      bell->changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return bell->rung; });
      bell->rung = false;
      lock.unlock();
      look();
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
