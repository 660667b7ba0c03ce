#include "mesh/program_simulation/internal/shared_links.h"

#include <algorithm>
#include <limits>

#include "core/base/check.h"

namespace weft::mesh {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Shares that differ by rounding alone are equal.
constexpr double kRounding = 1 + 1e-12;

}  // namespace

void SharedLinks::add(std::size_t number, const Traffic::Movement& movement, std::uint64_t order, double bytes) {
  const auto behind = std::ranges::upper_bound(all_, order, {}, &Moving::order);
  all_.insert(behind, {number, &movement, order, bytes, 0});
  changed_ = true;
}

void SharedLinks::share_out() {
  changed_ = false;
  std::vector<double> room = traffic_.link_rates;
  std::vector<std::size_t> places = traffic_.queue_places;
  std::vector<Moving*> open;
  for (Moving& one : all_) {
    one.rate = 0;
    const auto& queue = one.movement->queue;
    if (queue && places[queue->index] == 0) continue;
    if (queue) --places[queue->index];
    open.push_back(&one);
  }
  // The link with least for each is filled first.
  while (!open.empty()) {
    std::vector<double> wanted(room.size(), 0);
    for (const Moving* one : open) {
      for (const auto& crossing : one->movement->crossings) wanted[crossing.link] += one->movement->weight * crossing.times;
    }
    const auto share = [&](const Moving* one) {
      double least = kNever;
      for (const auto& crossing : one->movement->crossings) {
        least = std::min(least, std::max(room[crossing.link], 0.0) / wanted[crossing.link]);
      }
      return least;
    };
    double least = kNever;
    for (const Moving* one : open) least = std::min(least, share(one));
    const auto filled =
        std::stable_partition(open.begin(), open.end(), [&](const Moving* one) { return share(one) > least * kRounding; });
    for (auto at = filled; at != open.end(); ++at) {
      (*at)->rate = least * (*at)->movement->weight;
      for (const auto& crossing : (*at)->movement->crossings) room[crossing.link] -= (*at)->rate * crossing.times;
    }
    open.erase(filled, open.end());
  }
}

std::optional<double> SharedLinks::next_end() {
  if (changed_) share_out();
  double first = kNever;
  for (const Moving& one : all_) {
    if (one.rate > 0) first = std::min(first, now_ + one.left / one.rate);
  }
  return first < kNever ? std::optional(first) : std::nullopt;
}

void SharedLinks::advance(double time) {
  if (changed_) share_out();
  for (Moving& one : all_) one.left = std::max(0.0, one.left - one.rate * (time - now_));
  now_ = time;
}

std::size_t SharedLinks::take_ended() {
  const auto first =
      std::ranges::min_element(all_, {}, [](const Moving& one) { return one.rate > 0 ? one.left / one.rate : kNever; });
  WEFT_CHECK(first != all_.end() && first->rate > 0, "nothing is under way");
  const std::size_t number = first->number;
  all_.erase(first);
  changed_ = true;
  return number;
}

}  // namespace weft::mesh
