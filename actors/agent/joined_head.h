#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "actors/message/ids.h"

namespace weft::actors {

/// Head that an agent obeys: the one that it joined last, or is joining. One thread at a time.
class JoinedHead final {
 public:
  /// `host`: name of the agent's host.
  explicit JoinedHead(std::string host) : host_(std::move(host)) {}

  /// Obeys `head` too, which is being joined.
  void prepare(ProcessRef head) { next_ = std::move(head); }
  /// Obeys `head` alone from now on.
  void complete(ProcessRef head, std::uint64_t term, std::int64_t grace_ns);
  /// Throws kStaleEpoch if `term` is older than that of the head, kFailedPrecondition if the caller
  /// is another process.
  void check(const ProcessRef& caller, std::uint64_t term) const;

  const ProcessRef& process() const { return joined_; }
  std::uint64_t term() const { return term_; }
  /// Returns the time that processes without a head or an owner wait for one.
  std::int64_t grace_ns() const { return grace_ns_; }

 private:
  const std::string host_;
  ProcessRef joined_;
  ProcessRef next_;         // Head that is being joined, or joined_.
  std::uint64_t term_ = 0;  // Term of joined_.
  std::int64_t grace_ns_ = 0;
};

}  // namespace weft::actors
