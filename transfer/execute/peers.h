#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "core/base/error.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Devices that an engine was connected to: their hosts, their paths, and which of them are lost. A
/// value. Transfer thread only.
class Peers final {
 public:
  /// Registers a peer that is about to be connected, for the first time or again. Forgets an
  /// earlier loss.
  void add(DeviceId peer, HostId host);
  void set_path(DeviceId peer, Path path);
  /// Records the loss of a peer. Returns false if it was already lost.
  bool record_loss(DeviceId peer, const Error& error) { return lost_.emplace(peer, error).second; }
  /// Records that this device cut the connection, which the wire does not report.
  void record_cut(DeviceId peer) { cut_.insert(peer); }

  /// Returns the error by which the peer was lost, or null.
  const Error* loss_error(DeviceId peer) const;
  /// Returns true if the peer was connected and this device did not cut the connection.
  bool was_connected(DeviceId peer) const { return hosts_.contains(peer) && !cut_.contains(peer); }
  /// Returns true if the peer was ever reached over TCP, even if it has been lost since.
  bool is_over_network(DeviceId peer) const { return over_network_.contains(peer); }
  /// Returns the number of devices on this host that were ever connected.
  std::size_t num_local_peers() const { return neighbours_.size(); }
  /// Formats a peer, such as "device 2 (host 1)".
  std::string name_of(DeviceId peer) const;

 private:
  std::map<DeviceId, HostId> hosts_;
  std::set<DeviceId> neighbours_;    // devices on this host
  std::set<DeviceId> over_network_;  // devices over TCP
  std::map<DeviceId, Error> lost_;
  std::set<DeviceId> cut_;  // peers cut from here since they were connected
};

}  // namespace weft::transfer
