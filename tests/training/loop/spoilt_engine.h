#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "apps/run_files/checkpoint.h"
#include "apps/train/model_parameters.h"
#include "core/base/clock.h"
#include "mesh/runtime/training_engine.h"

namespace weft::apps {

/// Limits the size of this process's files while it exists. Writes beyond the limit fail, as on a
/// full disk.
class FileSizeLimit final {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

/// Clock that advances by one second per call of now(). Thread-safe.
class SteppingClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(std::chrono::seconds(++looks_)); }

 private:
  mutable std::atomic<std::int64_t> looks_ = 0;
};

/// Engine with injected faults: some steps have NaN gradients, second moments overflow from a step
/// on, and a limited number of deaths is recovered.
class SpoiltEngine final : public mesh::TrainingEngine {
 public:
  SpoiltEngine(mesh::TrainingEngine& engine, const std::set<std::int64_t>& skipped,
               std::int64_t overflow_at, std::function<void(std::int64_t step)> before_step,
               std::function<void()> during_gather, bool copies, std::size_t restarts,
               std::function<void()> before_restore)
      : engine_(engine),
        skipped_(skipped),
        overflow_at_(overflow_at),
        before_step_(std::move(before_step)),
        during_gather_(std::move(during_gather)),
        copies_(copies),
        restarts_(restarts),
        before_restore_(std::move(before_restore)) {}

  const Graph& graph() const override { return engine_.graph(); }
  mesh::StepResult run(mesh::StepRequest request) override {
    if (request.split == mesh::Split::kValidation) return engine_.run(request);
    step_ = request.step;
    if (before_step_) before_step_(step_);
    mesh::StepResult result = engine_.run(request);
    if (skipped_.contains(step_)) {
      result.grad_norm = std::numeric_limits<double>::quiet_NaN();
      const ParameterList parameters = parameter_list(graph());
      const auto spoilt =
          std::ranges::find(parameters, "h0.attention.qkv.weight", &TensorDeclaration::name);
      result.first_nonfinite_parameter = static_cast<std::uint32_t>(spoilt - parameters.begin());
    }
    return result;
  }
  bool supports_copies() const override { return copies_; }
  void copy_state() override {
    engine_.copy_state();
    copied_at_ = step_;
  }
  void gather(const ReadStateSlice& take, const std::stop_token& stop) override {
    if (!copies_) copy_state();
    engine_.gather(
        [&](const StateSlice& piece, std::span<const float> values) {
          if (during_gather_) during_gather_();
          std::vector<float> given(values.begin(), values.end());
          if (overflow_at_ > 0 && copied_at_ >= overflow_at_ && piece.parameter == 1 &&
              piece.block == StateBlock::kSecondMoment)
            given[0] = std::numeric_limits<float>::infinity();
          take(piece, given);
        },
        stop);
  }
  void restore(const WriteStateSlice& give, std::int64_t steps) override {
    if (before_restore_) before_restore_();
    engine_.restore(give, steps);
  }
  bool recovers_from(const Error& error) const override {
    return restarts_ > 0 && error.code() == ErrorCode::kPeerDied;
  }
  Recovered recover(const Error& why) override {
    if (recovered_ == restarts_) throw_error(ErrorCode::kPeerDied, "{}, too often", why.message());
    return {.cause = why.message(), .restart = ++recovered_, .max_restarts = restarts_};
  }
  std::vector<DeviceTrace> take_traces() override { return engine_.take_traces(); }

 private:
  mesh::TrainingEngine& engine_;
  const std::set<std::int64_t>& skipped_;
  const std::int64_t overflow_at_;
  const std::function<void(std::int64_t step)> before_step_;
  const std::function<void()> during_gather_;
  const bool copies_;
  const std::size_t restarts_;
  const std::function<void()> before_restore_;
  std::size_t recovered_ = 0;
  std::int64_t step_ = 0, copied_at_ = 0;
};

}  // namespace weft::apps
