#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace weft {

/// What users of links get when all shares rise together, until the link that fills first fixes
/// those of its users, and so on: progressive filling (Bertsekas and Gallager, Data Networks,
/// section 6.5.2). Kept from one round to the next, it allocates nothing. Not thread-safe.
///
///   shares.begin(capacities);
///   shares.use(user, link, demand);   // each link that it crosses
///   shares.share_out([](user, share) { ... });
class MaxMinShares {
 public:
  /// Forgets all users. By link, what it carries a second.
  void begin(std::span<const double> capacities) {
    for (const std::uint32_t link : used_) links_[link].users.clear();
    used_.clear();
    capacities_ = capacities;
    links_.resize(capacities.size());
    for (const std::uint32_t user : known_) users_[user].uses.clear();
    known_.clear();
  }

  /// Of `link`, the user takes `demand` for each unit of its share. Users have small numbers.
  void use(std::uint32_t user, std::uint32_t link, double demand = 1) {
    if (user >= users_.size()) users_.resize(user + std::size_t{1});
    if (users_[user].uses.empty()) {
      known_.push_back(user);
      users_[user].is_fixed = false;
    }
    users_[user].uses.push_back({link, demand});
    Link& used = links_[link];
    if (used.users.empty()) {
      used_.push_back(link);
      used.room = capacities_[link];
      used.demand = 0;
      used.open = 0;
    }
    used.users.push_back(user);
    used.demand += demand;
    ++used.open;
  }

  /// Fixes a share before its turn, or, from within `fixed`, with another's. Nothing if it is
  /// fixed, or uses no link.
  template <typename Fixed>
  void fix(std::uint32_t user, double share, const Fixed& fixed) {
    if (user >= users_.size() || users_[user].uses.empty() || users_[user].is_fixed) return;
    users_[user].is_fixed = true;
    for (const Use& use : users_[user].uses) {
      Link& link = links_[use.link];
      link.room -= share * use.demand;
      link.demand -= use.demand;
      --link.open;
    }
    fixed(user, share);
  }

  /// Calls fixed(user, share) for each that is not fixed yet. Links whose levels differ by less
  /// than the part `rounding` fill together.
  template <typename Fixed>
  void share_out(const Fixed& fixed, double rounding = 1e-9) {
    open_ = used_;
    while (true) {
      std::erase_if(open_, [&](std::uint32_t link) { return links_[link].open == 0; });
      if (open_.empty()) return;
      double level = std::numeric_limits<double>::infinity();
      for (const std::uint32_t link : open_)
        level = std::min(level, links_[link].room / links_[link].demand);
      level = std::max(level, 0.0);
      for (const std::uint32_t number : open_) {
        const Link& link = links_[number];
        if (link.open == 0 || link.room / link.demand > level * (1 + rounding)) continue;
        for (const std::uint32_t user : link.users) fix(user, level, fixed);
      }
    }
  }

 private:
  struct Use {
    std::uint32_t link = 0;
    double demand = 1;
  };
  struct User {
    std::vector<Use> uses;
    bool is_fixed = false;
  };
  struct Link {
    double room = 0;
    double demand = 0;       ///< Of those that are not fixed.
    std::uint32_t open = 0;  ///< How many those are.
    std::vector<std::uint32_t> users;
  };

  std::span<const double> capacities_;
  std::vector<Link> links_;
  std::vector<User> users_;
  std::vector<std::uint32_t> used_, known_, open_;
};

}  // namespace weft
