#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "actors/head/cluster_messages.h"
#include "actors/message/ids.h"
#include "core/base/clock.h"

namespace weft::actors {

class System;

/// Replacement of a running head's token. Members of the cluster may prove a replaced token for the
/// grace of the head; then its file is deleted.
///
/// Made by the head before it listens; the System must outlive it. One thread at a time.
class TokenRotator final {
 public:
  /// Accepts the tokens that an earlier head of this state folder has replaced.
  TokenRotator(System& system, std::filesystem::path state_directory, Nanoseconds grace);

  /// Makes a new token and sends it to the connected members. `members`: other processes that may
  /// prove the former token. Throws Error(kFailedPrecondition) if it cannot be written.
  TokenRotation rotate(std::vector<ProcessId> members) const;

 private:
  void forget_later() const;

  System& system_;
  const std::filesystem::path state_directory_;
  const Nanoseconds grace_;
  // number of the last timer, which alone deletes the tokens; shared with the timers
  const std::shared_ptr<std::atomic<std::uint64_t>> count_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

/// Makes a new token for a head that does not run. Returns the number of processes that the next
/// head accepts with the former one. Throws Error(kFailedPrecondition) if a head runs, or there is
/// no token; kDataLoss if the head's state is damaged.
std::size_t rotate_token_offline(const std::filesystem::path& state_directory);

}  // namespace weft::actors
