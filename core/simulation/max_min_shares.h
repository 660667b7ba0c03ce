#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace weft {

/// Max-min fair shares of links by progressive filling: all shares rise together until a link is
/// full, which fixes the shares of its users, and so on (Bertsekas and Gallager, Data Networks,
/// section 6.5.2). Reuse one object: later rounds allocate nothing. Not thread-safe.
///
///   shares.start_round(capacities);
///   shares.add_use(user, link, demand);   // once for each link that the user crosses
///   shares.compute_shares([](user, share) { ... });
class MaxMinShares {
 public:
  /// Starts a new round without users. `capacities[link]` is the link's rate per second. Borrows
  /// it.
  void start_round(std::span<const double> capacities) {
    for (const std::uint32_t link : used_) links_[link].users.clear();
    used_.clear();
    capacities_ = capacities;
    links_.resize(capacities.size());
    for (const std::uint32_t user : known_) users_[user].uses.clear();
    known_.clear();
  }

  /// Lets the user take `demand` of the link per unit of its share. User numbers should be small.
  void add_use(std::uint32_t user, std::uint32_t link, double demand = 1) {
    if (user >= users_.size()) users_.resize(user + std::size_t{1});
    if (users_[user].uses.empty()) {
      known_.push_back(user);
      users_[user].is_fixed = false;
    }
    users_[user].uses.push_back({link, demand});
    SharedLink& used = links_[link];
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

  /// Fixes a user's share before compute_shares() does; may be called from within `fixed`. No
  /// effect if the share is fixed already or the user uses no link.
  template <typename Fixed>
  void fix(std::uint32_t user, double share, const Fixed& fixed) {
    if (user >= users_.size() || users_[user].uses.empty() || users_[user].is_fixed) return;
    users_[user].is_fixed = true;
    for (const Use& use : users_[user].uses) {
      SharedLink& link = links_[use.link];
      link.room -= share * use.demand;
      link.demand -= use.demand;
      --link.open;
    }
    fixed(user, share);
  }

  /// Computes all shares not fixed yet and calls fixed(user, share) for each. Links whose fill
  /// levels differ by a relative difference below `rounding` count as full at the same time.
  template <typename Fixed>
  void compute_shares(const Fixed& fixed, double rounding = 1e-9) {
    open_ = used_;
    while (true) {
      std::erase_if(open_, [&](std::uint32_t link) { return links_[link].open == 0; });
      if (open_.empty()) return;
      double level = std::numeric_limits<double>::infinity();
      for (const std::uint32_t link : open_)
        level = std::min(level, links_[link].room / links_[link].demand);
      level = std::max(level, 0.0);
      for (const std::uint32_t number : open_) {
        const SharedLink& link = links_[number];
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
  struct SharedLink {
    double room = 0;
    double demand = 0;       ///< Sum of the demands of users without a fixed share.
    std::uint32_t open = 0;  ///< Number of users without a fixed share.
    std::vector<std::uint32_t> users;
  };

  std::span<const double> capacities_;
  std::vector<SharedLink> links_;
  std::vector<User> users_;
  std::vector<std::uint32_t> used_, known_, open_;
};

}  // namespace weft
