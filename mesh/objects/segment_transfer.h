#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "core/base/clock.h"
#include "core/base/outcome.h"
#include "core/base/secret.h"
#include "core/log/log.h"
#include "mesh/objects/object_messages.h"
#include "transfer/execute/transfer_engine.h"

namespace weft::mesh {

/// End of a process on the data plane that carries objects between hosts: a wire, opened at first
/// use, and transfers of segments from one process to another. Each chunk has a CRC32C.
///
/// The processes of a cluster share a secret that follows from its token. After the token has been
/// replaced, a new wire is opened; running transfers end first. Owner's thread only; callbacks run
/// on the transfer thread.
class SegmentTransfer final {
 public:
  using Done = std::function<void(const Outcome<void>&)>;

  explicit SegmentTransfer(const Log& log);

  /// Opens the wire for this token of the cluster, unless it is open. `interface`: network
  /// interface; empty: the transport chooses. Throws the errors of make_wire().
  DataPlaneHello open(const Secret& token, const std::string& interface);
  /// Makes a process reachable, again after a broken connection, too. Both sides call it. Throws
  /// Error(kUnavailable) if it knows another token, or if its id on the data plane is taken by
  /// another process.
  void connect(actors::ProcessId process, const DataPlaneHello& hello);
  /// Returns true if connect() was called for the process and its connection has not been lost.
  bool is_connected(actors::ProcessId process) const {
    return devices_.contains(process) && !suspects_.contains(process);
  }
  /// Makes is_connected() false: a transfer has failed, so the connection may be broken on one side
  /// or both. Running transfers continue.
  void connect_again(actors::ProcessId process) { suspects_.insert(process); }
  /// Ends the transfers with a process that has ended.
  void process_lost(actors::ProcessId process, const Error& why);

  transfer::DeviceId self() const { return device_; }
  /// Returns an id for a transfer to this process, unique in the cluster.
  transfer::TransferId next_id();
  /// Sends `segment`, which stays valid and unchanged until `done` begins.
  void send(transfer::DeviceId receiver, const transfer::TransferId& id,
            std::span<const std::byte> segment, Done done);
  /// Receives a segment. `segment` is not written any more once `done` begins.
  void receive(actors::ProcessId sender, const transfer::TransferId& id,
               std::span<std::byte> segment, Done done);
  /// Executes this process's part of a planned transfer. A tensor of the part that has a source
  /// reads `source`, one that has a destination writes `destination`; each is the whole object.
  /// `part` and the buffers stay valid until `done` begins.
  using PartDone = std::function<void(const transfer::TransferReport&)>;
  void execute(const transfer::DevicePart& part, const transfer::TransferId& id,
               std::span<const std::byte> source, std::span<std::byte> destination, PartDone done);
  /// Ends a transfer with `error`.
  void cancel(const transfer::TransferId& id, const Error& error);

 private:
  void start(transfer::DeviceId from, transfer::DeviceId to, const transfer::TransferId& id,
             std::span<const std::byte> source, std::span<std::byte> destination, Done done);

  const Log log_;
  const SteadyClock clock_;
  transfer::DeviceId device_;
  std::uint64_t generation_ = 0;
  std::uint64_t next_transfer_ = 0;
  std::map<actors::ProcessId, transfer::DeviceId> devices_;
  std::set<actors::ProcessId> suspects_;
  std::unique_ptr<transfer::TransferEngine> engine_;
};

}  // namespace weft::mesh
