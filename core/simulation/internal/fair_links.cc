#include "core/simulation/internal/fair_links.h"

#include <algorithm>
#include <limits>

#include "core/base/check.h"

namespace weft::internal {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Relative difference below which levels are equal, to tolerate rounding.
constexpr double kRounding = 1e-12;

}  // namespace

void FairLinks::add(TaskId task, const Movement& movement, std::uint64_t order, double amount) {
  const auto behind = std::ranges::upper_bound(all_, order, {}, &Moving::order);
  all_.insert(behind, {task, &movement, order, amount, 0, 0, {}, {}});
  changed_ = true;
}

void FairLinks::compute_shares() {
  changed_ = false;
  taken_.assign(links_.queues, 0);
  shares_.begin(links_.rates);
  for (std::uint32_t i = 0; i < all_.size(); ++i) {
    Moving& one = all_[i];
    one.rate = 0;
    one.granted = one.movement->weight;
    if (const auto& queue = one.movement->queue) {
      const double place = std::min(queue->place, queue->places - taken_[queue->index]);
      taken_[queue->index] += queue->place;
      if (place <= 0) continue;
      one.granted *= place / queue->place;
    }
    if (!one.moved_at) {
      one.moved_at = now_;
      one.after = last_ended_;
    }
    for (const Movement::Crossing& crossing : one.movement->crossings) {
      shares_.use(i, crossing.link, one.granted * crossing.times);
    }
  }
  shares_.compute_shares(
      [&](std::uint32_t i, double share) { all_[i].rate = share * all_[i].granted; }, kRounding);
}

std::optional<double> FairLinks::next_end() {
  if (changed_) compute_shares();
  double first = kNever;
  for (const Moving& one : all_) {
    if (one.rate > 0) first = std::min(first, now_ + one.left / one.rate);
  }
  return first < kNever ? std::optional(first) : std::nullopt;
}

void FairLinks::advance(double time) {
  if (changed_) compute_shares();
  for (Moving& one : all_) one.left = std::max(0.0, one.left - one.rate * (time - now_));
  now_ = time;
}

FairLinks::Ended FairLinks::take_ended() {
  const auto first = std::ranges::min_element(
      all_, {}, [](const Moving& one) { return one.rate > 0 ? one.left / one.rate : kNever; });
  WEFT_CHECK(first != all_.end() && first->rate > 0, "nothing is under way");
  const Ended ended{first->task, *first->moved_at, first->after};
  last_ended_ = ended.task;
  all_.erase(first);
  changed_ = true;
  return ended;
}

}  // namespace weft::internal
