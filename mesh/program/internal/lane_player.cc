#include "mesh/program/internal/lane_player.h"

#include "core/base/check.h"

namespace weft::mesh {

LanePlayer::LanePlayer(const ListedSteps& graph, const ValueUses& uses, Sharing sharing)
    : graph_(graph),
      uses_(uses),
      network_(sharing),
      state_(graph.steps.size(), State::kWaiting),
      begins_(graph.steps.size()),
      ends_(graph.steps.size()),
      unread_(graph.values.size()),
      awaited_(graph.steps.size()),
      missing_(graph.steps.size()) {
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    unread_[v] = uses.readers[v].size();
    if (uses.maker[v] == kNoStep) bytes_ += graph.values[v].bytes;
  }
  peak_ = bytes_;
  for (std::size_t i = 0; i < graph.steps.size(); ++i)
    missing_[i] = std::ranges::count_if(
        graph.steps[i].reads, [&](std::size_t value) { return uses.maker[value] != kNoStep; });
}

bool LanePlayer::is_ready(std::size_t step) const {
  return std::ranges::all_of(graph_.steps[step].reads, [&](std::size_t value) {
    return uses_.maker[value] == kNoStep || state_[uses_.maker[value]] == State::kEnded;
  });
}

double LanePlayer::ready_at(std::size_t step) const {
  double ready = 0;
  for (const std::size_t value : graph_.steps[step].reads) {
    const std::size_t maker = uses_.maker[value];
    if (maker == kNoStep || state_[maker] == State::kEnded) continue;
    if (state_[maker] == State::kWaiting) return kNever;
    ready = std::max(ready, network_.end_of(maker));
  }
  return ready;
}

void LanePlayer::wait_until(double time) {
  exposed_ += std::max(time - compute_, 0.0);
  pass_until(std::max(compute_, time));
}

std::size_t LanePlayer::last_in_flight() const {
  std::size_t last = kNoStep;
  for (std::size_t step = 0; step < state_.size(); ++step) {
    if (state_[step] != State::kInFlight || graph_.steps[step].starts_itself) continue;
    if (last == kNoStep || network_.end_of(step) > network_.end_of(last)) last = step;
  }
  return last;
}

void LanePlayer::run(std::size_t index, std::vector<std::size_t>& ready, std::size_t awaited) {
  const ListedStep& step = graph_.steps[index];
  if (awaited != kNoStep) {
    WEFT_CHECK(state_[awaited] != State::kWaiting, "step {} comes before {}, which it awaits",
               index, awaited);
    if (state_[awaited] == State::kInFlight) wait_until(network_.end_of(awaited));
    free_source(awaited);
  }
  const double available = ready_at(index);
  WEFT_CHECK(available < kNever, "step {} comes before what it reads", index);
  if (step.starts_itself) wait_for_buffers(step.buffer_bytes);
  else wait_until(available);
  begins_[index] = ends_[index] = compute_;
  if (step.lane == StepLane::kCompute) {
    pass_until(compute_ + step.seconds);
    ends_[index] = compute_;
    state_[index] = State::kEnded;
  } else if (step.seconds + step.latency <= 0) {
    state_[index] = State::kEnded;
  } else {
    state_[index] = State::kInFlight;
    network_.start(index, step.seconds, step.latency);
    if (step.buffer_bytes > 0) holding_.push_back(index);
    held_bytes_ += step.buffer_bytes;
  }
  for (const std::size_t value : step.makes) bytes_ += graph_.values[value].bytes;
  peak_ = std::max(peak_, bytes_);
  if (step.lane == StepLane::kCompute || step.starts_itself) {
    for (const std::size_t value : step.reads) free_if_read(value);
  }
  for (const std::size_t value : step.reads) free_source(uses_.maker[value]);
  std::vector<std::size_t> started;
  for (const std::size_t value : step.makes) {
    for (const std::size_t reader : uses_.readers[value])
      if (--missing_[reader] == 0)
        (graph_.steps[reader].starts_itself ? started : ready).push_back(reader);
    if (unread_[value] == 0 && !graph_.values[value].is_kept) bytes_ -= graph_.values[value].bytes;
  }
  for (const std::size_t own : started) run(own, ready);
}

double LanePlayer::bytes_made(std::size_t index) const {
  double made = 0;
  for (const std::size_t value : graph_.steps[index].makes) made += graph_.values[value].bytes;
  return made;
}

StepList LanePlayer::result() {
  const double computed = compute_;
  pass_until(kNever);
  const double end = std::max(computed, end_);
  return {{}, {}, end, exposed_, std::max(own_end_ - end, 0.0), peak_, begins_, ends_};
}

void LanePlayer::pass_until(double time) {
  compute_ = time;
  network_.advance(time, [this](std::size_t step, double end) {
    state_[step] = State::kEnded;
    ends_[step] = end;
    double& last = graph_.steps[step].starts_itself ? own_end_ : end_;
    last = std::max(last, end);
  });
}

void LanePlayer::wait_for_buffers(double bytes) {
  while (!holding_.empty() && held_bytes_ + bytes > graph_.max_buffer_bytes) {
    const std::size_t oldest = holding_.front();
    if (state_[oldest] == State::kInFlight) wait_until(network_.end_of(oldest));
    held_bytes_ -= graph_.steps[oldest].buffer_bytes;
    holding_.pop_front();
  }
}

void LanePlayer::free_source(std::size_t maker) {
  if (maker == kNoStep || graph_.steps[maker].lane != StepLane::kNetwork || awaited_[maker]) return;
  awaited_[maker] = true;
  for (const std::size_t value : graph_.steps[maker].reads) free_if_read(value);
}

void LanePlayer::free_if_read(std::size_t value) {
  if (--unread_[value] == 0 && !graph_.values[value].is_kept) bytes_ -= graph_.values[value].bytes;
}

}  // namespace weft::mesh
