#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/outcome.h"
#include "transfer/execute/chunk_header.h"
#include "transfer/execute/transfer_id.h"
#include "transfer/execute/transfer_limits.h"
#include "transfer/execute/transfer_port.h"
#include "transfer/execute/transfer_report.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Work that an engine runs under one TransferId: a device's part of a planned transfer, or its end
/// of an exchange.
///
/// The work uses the engine through TransferPort, and the engine uses the work through this class.
/// The engine passes it the messages of its id. The work ends when it is complete, by a limit, by a
/// peer's death or by fail(). Owned by the implementation of the port. Transfer thread only. Lives
/// until none of its messages is in flight.
class ActiveWork {
 public:
  /// `order` is the priority on the network: lower values go first.
  ActiveWork(const TransferContext& context, const TransferId& id, std::uint64_t order,
             const TransferLimits& limits);
  virtual ~ActiveWork() = default;
  ActiveWork(const ActiveWork&) = delete;
  ActiveWork& operator=(const ActiveWork&) = delete;

  const TransferId& id() const { return id_; }
  std::uint64_t order() const { return order_; }
  const std::optional<Error>& error() const { return error_; }
  /// Returns the report of work that has just finished.
  virtual TransferReport report() const;

  /// Starts the first sends.
  virtual void begin() = 0;
  /// Records that the first bytes for this device are on their way.
  void mark_first_bytes();
  /// Handles a message of this id. Takes and ends it (kDone), or keeps it for later (kHeld).
  enum class Arrival : std::uint8_t { kDone, kHeld };
  virtual Arrival message_arrived(MessageId message, DeviceId sender, const ChunkHeader& header,
                                  std::size_t bytes, std::span<const std::byte> payload) = 0;
  /// Called when `child` reports that it cannot take this chunk yet.
  virtual void chunk_refused(DeviceId child, std::uint32_t flow, std::uint32_t chunk) = 0;
  virtual void chunk_sent(const PendingChunk& what, const Outcome<void>& outcome) = 0;
  virtual void chunk_received(const PendingChunk& what, const Outcome<void>& outcome) = 0;
  /// Returns true if notes for this work may arrive after its end. The engine then ignores them.
  virtual bool may_receive_late_notes() const { return false; }

  /// State of a stream's sends over the network. See EgressOrder.
  struct NetworkUse {
    bool wants = false;      // a chunk could be sent now
    bool moves = false;      // chunks are in flight and not held by their receivers
    std::size_t places = 0;  // DevicePart::egress_slots
  };
  virtual NetworkUse network_use(std::uint32_t stream) const = 0;
  /// Sends all chunks of the stream that can be sent now.
  virtual void send_over_network(std::uint32_t stream) = 0;

  /// Returns true while this device must still send to or receive from `peer`.
  virtual bool needs(DeviceId peer) const = 0;
  /// Recipients of a failure's error. kWaiting: the devices that still wait for this one. kNoPeer:
  /// none, because the caller cuts the connections next.
  enum class NotifyPeers : std::uint8_t { kWaiting, kNoPeer };
  /// Stops the work: it sends and receives nothing new. It finishes once no message is in flight.
  void fail(const Error& error, NotifyPeers notify);
  /// Gives up messages in flight and held messages. Returns the devices whose connections must be
  /// cut to end these messages.
  virtual std::set<DeviceId> abandon_messages() = 0;
  /// Fails the work if it has exceeded a limit. If it failed earlier and `grace` has passed since
  /// its last message ended, returns abandon_messages(); otherwise returns no devices.
  std::set<DeviceId> check_deadline(TimePoint now, Nanoseconds grace);
  TimePoint next_check(Nanoseconds grace) const;

 protected:
  /// Called on failure. Drops everything that is not in flight. With `keep_messages`, held messages
  /// are not released, since their senders must see a loss. Returns the devices that still wait for
  /// this one.
  virtual std::set<DeviceId> stop(bool keep_messages) = 0;
  /// Returns true if nothing is left to do.
  virtual bool complete() const = 0;
  /// Names the work for error messages, such as "transfer epoch 1 ...".
  virtual std::string describe() const = 0;
  /// Lists the chunks that have not arrived or left, for error messages.
  virtual std::string describe_missing() const = 0;

  /// Counts a message in flight.
  void message_begun() { ++in_flight_; }
  void message_ended();
  /// Records progress: a chunk has left or landed.
  void record_progress() { last_progress_ = context_.clock.now(); }
  void finish_if_complete();
  bool is_finished() const { return finished_; }

  const TransferContext context_;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;

 private:
  const TransferId id_;
  const std::uint64_t order_;
  const TransferLimits limits_;
  const TimePoint started_;
  TimePoint last_progress_;               // when a message last left or landed
  std::optional<TimePoint> first_bytes_;  // when the first bytes were announced or arrived
  std::uint32_t in_flight_ = 0;
  std::optional<Error> error_;
  bool finished_ = false;
};

/// Factory of work with a given order. Called on the transfer thread.
using MakeWork =
    std::function<std::unique_ptr<ActiveWork>(const TransferContext&, std::uint64_t order)>;

}  // namespace weft::transfer
