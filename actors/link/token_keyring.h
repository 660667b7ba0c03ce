#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "actors/message/ids.h"
#include "core/base/clock.h"
#include "core/base/secret.h"

namespace weft::actors {

/// Returns an id that identifies a token without revealing it; never 0. Introductions carry it, so
/// that two processes find a token that both have.
std::uint64_t token_id(const Secret& token);

/// Tokens that a process accepts: its cluster's, and recently replaced ones. A replaced token is
/// accepted from processes that cannot know the new one yet.
///
/// A value; pure. Its owner's thread only.
class TokenKeyring final {
 public:
  struct Former {
    Secret token;
    TimePoint until;
    /// Processes that may still use the token; nullopt: any process.
    std::optional<std::set<ProcessId>> members;
  };

  explicit TokenKeyring(const Secret& current) : current_(current) {}

  const Secret& current() const { return current_; }
  /// Generation of the current token; grows with each replacement. 0: the token of the start.
  std::uint64_t generation() const { return generation_; }
  bool knows(const Secret& token) const;
  /// Makes `next` the current token. The replaced one stays valid until `until`; earlier ones stay
  /// valid until their own times.
  void replace(const Secret& next, std::uint64_t generation, TimePoint now, TimePoint until,
               std::optional<std::set<ProcessId>> members);
  void add_former(Former former) { former_.push_back(std::move(former)); }
  /// Sets the generation of a token that was replaced before this process started.
  void set_generation(std::uint64_t generation) { generation_ = generation; }

  /// Returns the current token and the former ones that are still valid.
  std::vector<Secret> usable(TimePoint now) const;
  /// Returns true if `process`, which has proven the token of that id, may connect.
  bool admits(std::uint64_t id, ProcessId process, TimePoint now) const;

 private:
  Secret current_;
  std::uint64_t generation_ = 0;
  std::vector<Former> former_;
};

}  // namespace weft::actors
