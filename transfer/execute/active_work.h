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

/// What an engine does under one TransferId: a device's part of a planned transfer, or its end of
/// an exchange.
///
/// It knows the engine as a TransferPort only, and the engine it by this class: it gets the
/// messages of its id, and ends by itself, by a limit, a peer's death or fail(). Owner: whoever
/// implements the port. Transfer thread only. Lives until nothing of it is under way on the wire.
class ActiveWork {
 public:
  /// `order`: work that goes first where they compete for the network has lower ones.
  ActiveWork(const TransferContext& context, const TransferId& id, std::uint64_t order,
             const TransferLimits& limits);
  virtual ~ActiveWork() = default;
  ActiveWork(const ActiveWork&) = delete;
  ActiveWork& operator=(const ActiveWork&) = delete;

  const TransferId& id() const { return id_; }
  std::uint64_t order() const { return order_; }
  const std::optional<Error>& error() const { return error_; }
  /// Of work that has just finished.
  virtual TransferReport report() const;

  /// The first sends.
  virtual void begin() = 0;
  /// The first bytes for this device are on their way.
  void bytes_are_coming();
  /// A message of this id is here: takes and ends it, or keeps it for later (kHeld).
  enum class Arrival : std::uint8_t { kDone, kHeld };
  virtual Arrival message_arrived(MessageId message, DeviceId sender, const ChunkHeader& header,
                                  std::size_t bytes, std::span<const std::byte> payload) = 0;
  /// `child` has told that it cannot take this chunk yet.
  virtual void chunk_held(DeviceId child, std::uint32_t flow, std::uint32_t chunk) = 0;
  virtual void chunk_sent(const PendingChunk& what, const Outcome<void>& outcome) = 0;
  virtual void chunk_received(const PendingChunk& what, const Outcome<void>& outcome) = 0;
  /// Messages of it may still come after its end; they mean nothing.
  virtual bool leaves_notes() const { return false; }

  /// See EgressOrder. Chunks of a stream that go to children over the network.
  struct NetworkUse {
    bool wants = false;      // one could be sent now
    bool moves = false;      // some are under way and not held by their receivers
    std::size_t places = 0;  // DevicePart::egress_places
  };
  virtual NetworkUse network_use(std::uint32_t stream) const = 0;
  /// Sends all that can be sent now.
  virtual void send_over_network(std::uint32_t stream) = 0;

  /// True while something must still go to or come from `peer`.
  virtual bool needs(DeviceId peer) const = 0;
  /// kOthers: the devices that still wait for this one hear why. kNobody: the caller cuts the
  /// connections next.
  enum class Tell : std::uint8_t { kOthers, kNobody };
  /// Stops: nothing new is sent or received. It is over once nothing is under way.
  void fail(const Error& error, Tell tell);
  /// Whose connections must be cut for the work to end: something of it is under way on them, or
  /// waits to be taken, which the cut takes away.
  virtual std::set<DeviceId> give_up_messages() = 0;
  /// Fails if it is past one of its limits. Gives give_up_messages() if it has failed and `grace`
  /// has passed since the last of its messages ended.
  std::set<DeviceId> check_deadline(TimePoint now, Nanoseconds grace);
  TimePoint next_check(Nanoseconds grace) const;

 protected:
  /// It has failed: drops what is not under way. `keep_messages`: those that wait to be taken stay,
  /// since their senders must see a loss. Returns the devices that still wait for this one.
  virtual std::set<DeviceId> stop(bool keep_messages) = 0;
  /// Nothing is left to be done.
  virtual bool complete() const = 0;
  /// For errors: "transfer epoch 1 ...", what has not come or gone.
  virtual std::string describe() const = 0;
  virtual std::string describe_missing() const = 0;

  /// A message has gone under way; one has ended.
  void message_begun() { ++in_flight_; }
  void message_ended();
  /// Something has left or landed.
  void moved() { moved_ = context_.clock.now(); }
  void finish_if_over();
  bool over() const { return over_; }

  const TransferContext context_;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;

 private:
  const TransferId id_;
  const std::uint64_t order_;
  const TransferLimits limits_;
  const TimePoint started_;
  TimePoint moved_;                  // when a message last left or landed
  std::optional<TimePoint> moving_;  // when the first bytes were known to come, if any had to
  std::uint32_t in_flight_ = 0;
  std::optional<Error> error_;
  bool over_ = false;
};

/// Makes work of this order, on the transfer thread.
using MakeWork =
    std::function<std::unique_ptr<ActiveWork>(const TransferContext&, std::uint64_t order)>;

}  // namespace weft::transfer
