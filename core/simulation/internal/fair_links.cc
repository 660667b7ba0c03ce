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
  shares_.start_round(links_.rates);
  for (std::uint32_t i = 0; i < all_.size(); ++i) {
    Moving& one = all_[i];
    one.rate = 0;
    one.effective_weight = one.movement->weight;
    if (const auto& queue = one.movement->queue) {
      const double slots = std::min(queue->slots, queue->max_slots - taken_[queue->index]);
      taken_[queue->index] += queue->slots;
      if (slots <= 0) continue;
      one.effective_weight *= slots / queue->slots;
    }
    if (!one.moved_at) {
      one.moved_at = now_;
      one.predecessor = last_ended_;
    }
    for (const Movement::LinkUse& use : one.movement->link_uses) {
      shares_.add_use(i, use.link, one.effective_weight * use.load_factor);
    }
  }
  shares_.compute_shares(
      [&](std::uint32_t i, double share) { all_[i].rate = share * all_[i].effective_weight; },
      kRounding);
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
  const Ended ended{first->task, *first->moved_at, first->predecessor};
  last_ended_ = ended.task;
  all_.erase(first);
  changed_ = true;
  return ended;
}

}  // namespace weft::internal
