#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "actors/message/ids.h"
#include "core/base/clock.h"
#include "core/base/secret.h"

namespace weft::actors {

/// Names a token without telling anything of it; never 0. It travels in introductions, so that two
/// processes find one that both have.
std::uint64_t token_id(const Secret& token);

/// The tokens that a process knows: its cluster's, and those that it has replaced a moment ago. A
/// former one is still taken from who cannot have heard of the new one.
///
/// A value; pure. Its owner's thread only.
class TokenRing final {
 public:
  struct Former {
    Secret token;
    TimePoint until;
    /// Who may still prove it; nothing: whoever does.
    std::optional<std::set<ProcessId>> members;
  };

  explicit TokenRing(const Secret& current) : current_(current) {}

  const Secret& current() const { return current_; }
  /// Grows with each replacement; 0: as the process was started.
  std::uint64_t generation() const { return generation_; }
  bool knows(const Secret& token) const;
  /// What it replaces is taken `until` then, and what was replaced before until its own time is
  /// over.
  void replace(const Secret& next, std::uint64_t generation, TimePoint now, TimePoint until,
               std::optional<std::set<ProcessId>> members);
  void add_former(Former former) { former_.push_back(std::move(former)); }
  /// It was replaced before this process began.
  void begin_at(std::uint64_t generation) { generation_ = generation; }

  /// The current one, and the former ones that are not over.
  std::vector<Secret> usable(TimePoint now) const;
  /// Whether `process`, which has proven the token of that id, may come in.
  bool admits(std::uint64_t id, ProcessId process, TimePoint now) const;

 private:
  Secret current_;
  std::uint64_t generation_ = 0;
  std::vector<Former> former_;
};

}  // namespace weft::actors
