#include "apps/train/background_checkpointer.h"

#include <chrono>
#include <future>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>

namespace weft::apps {
namespace {

BackgroundCheckpointer::Outcome write(CheckpointStore& store, mesh::TrainingEngine& engine,
                                      const CheckpointMetadata& heading, OldCheckpoints old_ones,
                                      const std::stop_token& stop) {
  bool engine_intact = true;  // true while the disk, not the engine, can fail
  try {
    const std::filesystem::path path = store.write(
        heading,
        [&](const ReadStateSlice& take) {
          engine_intact = false;
          engine.gather(
              [&](const StateSlice& piece, std::span<const float> values) {
                engine_intact = true;
                take(piece, values);
                engine_intact = false;
              },
              stop);
          engine_intact = true;
        },
        old_ones);
    return {.step = heading.step, .path = path};
  } catch (...) {
    return {.step = heading.step, .error = current_error(), .engine_intact = engine_intact};
  }
}

/// Adds its own lifetime to a sum.
class PauseTimer final {
 public:
  PauseTimer(const Clock& clock, Nanoseconds& sum)
      : clock_(clock), begun_(clock.now()), sum_(sum) {}
  PauseTimer(const PauseTimer&) = delete;
  PauseTimer& operator=(const PauseTimer&) = delete;
  ~PauseTimer() { sum_ += clock_.now() - begun_; }

 private:
  const Clock& clock_;
  const TimePoint begun_;
  Nanoseconds& sum_;
};

}  // namespace

struct BackgroundCheckpointer::Writing {
  std::future<Outcome> outcome;
  std::jthread thread;  ///< Not started if the checkpoint was written synchronously.
};

BackgroundCheckpointer::BackgroundCheckpointer(CheckpointStore& store, mesh::TrainingEngine& engine,
                                               const Clock& clock)
    : store_(store), engine_(engine), clock_(clock) {}

BackgroundCheckpointer::~BackgroundCheckpointer() = default;

void BackgroundCheckpointer::begin(const CheckpointMetadata& heading, OldCheckpoints old_ones) {
  const PauseTimer paused(clock_, paused_);
  const bool beside = engine_.supports_copies();
  if (beside) engine_.copy_state();
  auto writing = std::make_unique<Writing>();
  std::packaged_task<Outcome(const std::stop_token&)> task(
      [&store = store_, &engine = engine_, heading, old_ones](const std::stop_token& stop) {
        return write(store, engine, heading, old_ones, stop);
      });
  writing->outcome = task.get_future();
  if (beside)
    writing->thread =
        std::jthread([task = std::move(task)](const std::stop_token& stop) mutable { task(stop); });
  else task({});
  writing_ = std::move(writing);
}

std::optional<BackgroundCheckpointer::Outcome> BackgroundCheckpointer::poll() {
  if (!writing_ || writing_->outcome.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return std::nullopt;
  return take();
}

std::optional<BackgroundCheckpointer::Outcome> BackgroundCheckpointer::wait() {
  if (!writing_) return std::nullopt;
  const PauseTimer paused(clock_, paused_);
  return take();
}

std::optional<BackgroundCheckpointer::Outcome> BackgroundCheckpointer::cancel_write() {
  if (!writing_) return std::nullopt;
  writing_->thread.request_stop();
  return take();
}

std::optional<BackgroundCheckpointer::Outcome> BackgroundCheckpointer::take() {
  Outcome outcome = writing_->outcome.get();
  writing_.reset();
  return outcome;
}

}  // namespace weft::apps
