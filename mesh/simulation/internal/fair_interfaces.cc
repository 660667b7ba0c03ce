#include "mesh/simulation/internal/fair_interfaces.h"

#include <algorithm>

#include "core/base/check.h"

namespace weft::mesh {

void FairInterfaces::add(int transfer, std::size_t from, std::size_t to, double share, double seconds) {
  all_.push_back({transfer, from, to, std::clamp(share, 1e-6, 1.0), seconds, 0, 0, {}, -1});
  changed_ = true;
}

/// Places in the order of coming, then max-min fair rates: the interface with least for each is filled first.
void FairInterfaces::share_out() {
  changed_ = false;
  for (std::size_t i = 0; i < out_.size(); ++i) out_[i] = in_[i] = {1, 0};
  std::vector<double> places(out_.size(), 1);
  std::vector<Moving*> open;
  for (Moving& one : all_) {
    one.rate = 0;
    one.granted = std::min(one.share, places[one.from]);
    if (one.granted <= 0) continue;
    places[one.from] -= one.granted;
    out_[one.from].wanted += one.granted;
    in_[one.to].wanted += one.granted;
    open.push_back(&one);
    if (one.moved_at) continue;
    one.moved_at = now_;
    one.after = last_ended_;
  }
  while (!open.empty()) {
    const auto each = [](const Side& side) { return side.wanted > 0 ? std::max(side.free, 0.0) / side.wanted : 1e300; };
    double least = 1e300;
    for (const Moving* one : open) least = std::min({least, each(out_[one->from]), each(in_[one->to])});
    std::vector<Moving*> fixed;
    for (Moving* one : open) {
      if (std::min(each(out_[one->from]), each(in_[one->to])) <= least * (1 + 1e-12)) fixed.push_back(one);
    }
    for (Moving* one : fixed) {
      one->rate = least * one->granted;
      for (Side* side : {&out_[one->from], &in_[one->to]}) {
        side->free -= one->rate;
        side->wanted -= one->granted;
      }
      std::erase(open, one);
    }
    // What is left of sums that should be nothing.
    for (std::vector<Side>* sides : {&out_, &in_}) {
      for (Side& side : *sides) side.wanted = side.wanted < 1e-9 ? 0 : side.wanted;
    }
  }
}

std::optional<double> FairInterfaces::next_end() {
  if (changed_) share_out();
  std::optional<double> first;
  for (const Moving& one : all_) {
    if (one.rate <= 0) continue;
    const double end = now_ + one.left / one.rate;
    if (!first || end < *first) first = end;
  }
  return first;
}

void FairInterfaces::advance(double time) {
  if (changed_) share_out();
  for (Moving& one : all_) one.left = std::max(0.0, one.left - one.rate * (time - now_));
  now_ = time;
}

FairInterfaces::Ended FairInterfaces::take_ended() {
  const auto first =
      std::ranges::min_element(all_, {}, [](const Moving& one) { return one.rate > 0 ? one.left / one.rate : 1e300; });
  WEFT_CHECK(first != all_.end() && first->moved_at.has_value(), "no transfer is under way");
  const Ended ended{first->transfer, *first->moved_at, first->after};
  last_ended_ = ended.transfer;
  all_.erase(first);
  changed_ = true;
  return ended;
}

}  // namespace weft::mesh
