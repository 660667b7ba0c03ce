#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actors/mailbox/credit.h"
#include "actors/mailbox/mailbox.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Untaken values from which a generator waits for its reader.
inline constexpr std::uint32_t kStreamWindowValues = 16;
/// Bytes of untaken values from which a generator waits for its reader.
inline constexpr std::uint64_t kStreamWindowBytes = 1u << 20;

/// Values of one generator on their way to its reader: sends them in order, and makes the generator
/// wait while the reader has not taken enough of them.
///
///   co_yield ── add() ──► [ready] ── send_ready() ──► route       (several values per message)
///   reader takes values ──► grant() ──► resumes the generator
///
/// Shared by the generator's CallFrame and by sends that are due on the thread of the route. Any
/// thread, unless a member's comment says otherwise.
class ValueSender final : public std::enable_shared_from_this<ValueSender> {
 public:
  /// `mailbox`: that of the generator's actor. `call_id`: id of the generator's call.
  ValueSender(std::shared_ptr<Mailbox> mailbox, std::shared_ptr<ReturnRoute> route,
              std::uint64_t call_id)
      : mailbox_(std::move(mailbox)), route_(std::move(route)), call_id_(call_id) {}

  /// Queues an encoded value. Throws Error(kResourceExhausted) if it exceeds the limit of messages.
  void add(std::vector<std::byte> value);
  /// Sends the queued values.
  void send_ready();
  /// Returns true if the reader has taken enough for the next value.
  bool has_room() const;
  /// Resumes the generator once there is room. Returns false if there is room now.
  bool wait(Resumption generator);
  /// Ends a wait(): resumes the generator now.
  void stop_waiting();
  bool waits() const;
  /// Notes what the reader has taken so far.
  void grant(std::uint64_t consumed_values, std::uint64_t consumed_bytes);

 private:
  /// Returns true if a value of this size can go in one message with the queued ones.
  bool fits_ready(std::size_t bytes) const;

  /// Limit of the bytes of values in one message, unless it has one value only.
  static constexpr std::size_t kMaxBatchBytes = 64u << 10;

  // shared: the actor and the connection may end before sends that are due
  const std::shared_ptr<Mailbox> mailbox_;
  const std::shared_ptr<ReturnRoute> route_;
  const std::uint64_t call_id_;

  Mutex sending_;        // held while values go to the route, to keep their order
  mutable Mutex mutex_;  // guards the members below
  SendWindow window_{kStreamWindowValues, kStreamWindowBytes};
  std::vector<std::vector<std::byte>> ready_;
  std::size_t ready_bytes_ = 0;
  std::optional<Resumption> waiting_;
};

}  // namespace weft::actors
