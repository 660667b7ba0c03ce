#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "core/base/error.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// The devices that an engine was told of: where they are, what carries bytes to them, and which of
/// them are lost. A value. Transfer thread only.
class Peers final {
 public:
  /// `peer` is about to be connected, for the first time or again: a loss is forgotten.
  void add(DeviceId peer, HostId host);
  void set_path(DeviceId peer, Path path);
  /// False if it was lost before.
  bool lose(DeviceId peer, const Error& error) { return lost_.emplace(peer, error).second; }
  /// This device has cut the connection; the wire tells nobody of that.
  void cut(DeviceId peer) { cut_.insert(peer); }

  /// Why it was lost; null if it was not.
  const Error* loss_of(DeviceId peer) const;
  /// It was connected, and not cut from here.
  bool was_connected(DeviceId peer) const { return hosts_.contains(peer) && !cut_.contains(peer); }
  /// It is reached by tcp, or was: until its loss is told.
  bool is_over_network(DeviceId peer) const { return over_network_.contains(peer); }
  /// Devices of this host that were ever connected.
  std::size_t num_neighbours() const { return neighbours_.size(); }
  /// "device 2 (host 1)".
  std::string name_of(DeviceId peer) const;

 private:
  std::map<DeviceId, HostId> hosts_;
  std::set<DeviceId> neighbours_;    // on this host
  std::set<DeviceId> over_network_;  // by tcp
  std::map<DeviceId, Error> lost_;
  std::set<DeviceId> cut_;  // from here, since they were connected
};

}  // namespace weft::transfer
