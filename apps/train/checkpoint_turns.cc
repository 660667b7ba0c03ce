#include "apps/train/checkpoint_turns.h"

#include <chrono>
#include <future>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>

namespace weft::apps {
namespace {

CheckpointTurns::Outcome write(CheckpointStore& store, mesh::TrainingEngine& engine,
                               const CheckpointHeading& heading, OldOnes old_ones,
                               const std::stop_token& stop) {
  bool refused = true;  // true while the disk, not the engine, can fail
  try {
    const std::filesystem::path path = store.write(
        heading,
        [&](const TakePiece& take) {
          refused = false;
          engine.gather(
              [&](const StatePiece& piece, std::span<const float> values) {
                refused = true;
                take(piece, values);
                refused = false;
              },
              stop);
          refused = true;
        },
        old_ones);
    return {.step = heading.step, .path = path};
  } catch (...) {
    return {.step = heading.step, .error = current_error(), .refused = refused};
  }
}

/// Adds its own lifetime to a sum.
class Paused final {
 public:
  Paused(const Clock& clock, Nanoseconds& sum) : clock_(clock), begun_(clock.now()), sum_(sum) {}
  Paused(const Paused&) = delete;
  Paused& operator=(const Paused&) = delete;
  ~Paused() { sum_ += clock_.now() - begun_; }

 private:
  const Clock& clock_;
  const TimePoint begun_;
  Nanoseconds& sum_;
};

}  // namespace

struct CheckpointTurns::Writing {
  std::future<Outcome> outcome;
  std::jthread thread;  ///< Not started if the checkpoint was written synchronously.
};

CheckpointTurns::CheckpointTurns(CheckpointStore& store, mesh::TrainingEngine& engine,
                                 const Clock& clock)
    : store_(store), engine_(engine), clock_(clock) {}

CheckpointTurns::~CheckpointTurns() = default;

void CheckpointTurns::begin(const CheckpointHeading& heading, OldOnes old_ones) {
  const Paused paused(clock_, paused_);
  const bool beside = engine_.copies();
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

std::optional<CheckpointTurns::Outcome> CheckpointTurns::poll() {
  if (!writing_ || writing_->outcome.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return std::nullopt;
  return take();
}

std::optional<CheckpointTurns::Outcome> CheckpointTurns::wait() {
  if (!writing_) return std::nullopt;
  const Paused paused(clock_, paused_);
  return take();
}

std::optional<CheckpointTurns::Outcome> CheckpointTurns::give_up() {
  if (!writing_) return std::nullopt;
  writing_->thread.request_stop();
  return take();
}

std::optional<CheckpointTurns::Outcome> CheckpointTurns::take() {
  Outcome outcome = writing_->outcome.get();
  writing_.reset();
  return outcome;
}

}  // namespace weft::apps
