#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/message/ids.h"
#include "core/codec/codec.h"
#include "mesh/objects/object_ref.h"
#include "transfer/execute/transfer_id.h"
#include "transfer/flow/device_part.h"
#include "transfer/flow/landed_chunks.h"
#include "transfer/topology/topology.h"

namespace weft::mesh {

// Messages between the object stores of processes.

/// Flag of the numbers of broadcasts, by which they differ from a reader's attempts.
inline constexpr std::uint64_t kBroadcastFlag = std::uint64_t{1} << 63;

/// Request for an object, to the store that knows where its copies are.
struct LocateRequest {
  ObjectDescription object;
  actors::ProcessRef reader;
  std::string host;  ///< Host of the reader, as SystemOptions::memory_host; never empty.
  /// Processes from which the reader could not get the object.
  std::vector<actors::ProcessId> failed = {};
  std::uint64_t attempt = 0;  ///< Number of the reader's attempt to get an object. Never reused.

  static constexpr auto fields =
      weft::fields(&LocateRequest::object, &LocateRequest::reader, &LocateRequest::host,
                   &LocateRequest::failed, &LocateRequest::attempt);
};

/// Answer to a LocateRequest.
struct LocateReply {
  /// kMap: `holder`, on the reader's host or the reader itself, has the object. kPull: the reader
  /// gets a copy
  /// from `holder`, for its host, and reports when it has it.
  enum class Action : std::uint8_t { kMap, kPull };
  Action action = Action::kMap;
  actors::ProcessRef holder;

  static constexpr auto fields = weft::fields(&LocateReply::action, &LocateReply::holder);
};

/// Message of a store to another one that needs no answer.
struct Notice {
  enum class Kind : std::uint8_t {
    kReceived,           ///< The sender has a complete copy.
    kNotReceived,        ///< The sender's attempt has failed or was cancelled, or its copy is gone.
    kReaderDone,         ///< The sender does not map the receiver's copy any more.
    kDropped,            ///< The owner has dropped the object.
    kBroadcastComplete,  ///< The object has arrived by a broadcast.
    kBroadcastAbandoned,  ///< The broadcast of the object has ended early.
  };
  Kind kind = Kind::kReceived;
  ObjectId object;
  /// kReceived, kNotReceived: as in the LocateRequest, or number of the broadcast. kReaderDone:
  /// number of the mapping. kBroadcastComplete, kBroadcastAbandoned: number of the broadcast.
  std::uint64_t number = 0;

  static constexpr auto fields = weft::fields(&Notice::kind, &Notice::object, &Notice::number);
};

/// Address of a process on the data plane of objects.
struct DataPlaneHello {
  transfer::DeviceId device;
  std::uint64_t generation = 0;  ///< Equal if both processes know the same token of the cluster.
  std::vector<std::byte> address;

  static constexpr auto fields =
      weft::fields(&DataPlaneHello::device, &DataPlaneHello::generation, &DataPlaneHello::address);
};

/// Request to send a part of an object over the data plane, once it is there.
struct SendRequest {
  ObjectId object;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  transfer::DeviceId receiver;
  transfer::TransferId transfer;

  static constexpr auto fields =
      weft::fields(&SendRequest::object, &SendRequest::offset, &SendRequest::bytes,
                   &SendRequest::receiver, &SendRequest::transfer);
};

/// Request to get ready to receive an object by a broadcast.
struct BroadcastStart {
  ObjectDescription object;
  std::uint64_t number = 0;  ///< Number of the broadcast at its owner, with kBroadcastFlag.
  bool ahead = false;  ///< True if readers are expected but have not asked: see Claim::kAhead.

  static constexpr auto fields =
      weft::fields(&BroadcastStart::object, &BroadcastStart::number, &BroadcastStart::ahead);
};

/// Answer of a process that is to receive an object by a broadcast.
struct BroadcastReady {
  bool has_copy = false;  ///< True if it has the object already, and takes no part.
  DataPlaneHello hello = {};

  static constexpr auto fields = weft::fields(&BroadcastReady::has_copy, &BroadcastReady::hello);
};

/// Part of one process in a planned broadcast of an object.
struct BroadcastPart {
  ObjectId object;
  transfer::DevicePart part;
  transfer::TransferId transfer;
  struct Peer {
    actors::ProcessId process;
    DataPlaneHello hello;
    static constexpr auto fields = weft::fields(&Peer::process, &Peer::hello);
  };
  std::vector<Peer> peers = {};  ///< Processes that it sends to and receives from.

  static constexpr auto fields = weft::fields(&BroadcastPart::object, &BroadcastPart::part,
                                              &BroadcastPart::transfer, &BroadcastPart::peers);
};

/// End of a BroadcastPart.
struct BroadcastReport {
  std::string problem = {};                         ///< Empty if all has arrived and left.
  std::vector<transfer::LandedChunks> landed = {};  ///< Despite a problem, per flow.

  static constexpr auto fields = weft::fields(&BroadcastReport::problem, &BroadcastReport::landed);
};

/// State of a store.
struct StoreStatus {
  actors::ProcessRef process;
  std::string host;
  std::uint64_t objects = 0;          ///< Objects that this process has put and not dropped.
  std::uint64_t copies = 0;           ///< Copies here, own ones included.
  std::uint64_t bytes_in_memory = 0;  ///< Bytes of the copies here.
  std::uint64_t bytes_on_disk = 0;    ///< Bytes of the copies here.
  std::uint64_t bytes_received = 0;   ///< Over the data plane, since the store began.
  std::uint64_t bytes_sent = 0;       ///< Over the data plane, since the store began.
  std::uint64_t broadcasts = 0;       ///< Broadcasts that this process has planned.
  std::uint64_t host_bytes = 0;       ///< In memory, of all processes of the host.
  std::uint64_t host_limit = 0;

  static constexpr auto fields =
      weft::fields(&StoreStatus::process, &StoreStatus::host, &StoreStatus::objects,
                   &StoreStatus::copies, &StoreStatus::bytes_in_memory, &StoreStatus::bytes_on_disk,
                   &StoreStatus::bytes_received, &StoreStatus::bytes_sent, &StoreStatus::broadcasts,
                   &StoreStatus::host_bytes, &StoreStatus::host_limit);
};

}  // namespace weft::mesh

template <>
struct weft::last_enumerator<weft::mesh::LocateReply::Action> {
  static constexpr auto kValue = weft::mesh::LocateReply::Action::kPull;
};
template <>
struct weft::last_enumerator<weft::mesh::Notice::Kind> {
  static constexpr auto kValue = weft::mesh::Notice::Kind::kBroadcastAbandoned;
};
