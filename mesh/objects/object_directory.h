#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/message/ids.h"
#include "mesh/objects/object_messages.h"

namespace weft::mesh {

/// Copies of the objects for which a process answers: which processes have one, or are receiving
/// one, and from where. Chooses the source of each new copy so that the copies of an object form a
/// chain: a process that still receives serves the next one.
///
/// Does no communication. Owner's thread only.
class ObjectDirectory final {
 public:
  /// Adds an object, of which `holder` on `host` has a complete copy.
  void add(const ObjectDescription& object, const actors::ProcessRef& holder,
           const std::string& host);
  bool contains(const ObjectId& id) const { return objects_.contains(id); }
  /// Returns true if the object is known and its owner has not dropped it.
  bool has_readers(const ObjectId& id) const;
  std::size_t size() const { return objects_.size(); }

  /// Returns where the reader finds the object; nullopt: a copy for its host is on the way, or a
  /// broadcast to it is being arranged, so ask again after the next change. Registers a reader that
  /// is to pull. Throws
  /// Error(kNotFound) if the object was dropped, Error(kUnavailable) if no process is left that can
  /// send it.
  std::optional<LocateReply> locate(const LocateRequest& request);
  /// Returns true if a process of the host has a copy or is receiving one.
  bool has_copy(const ObjectId& id, const std::string& host) const;
  /// Returns those of `processes` that were not given for this object before; none if it is unknown
  /// or dropped.
  std::vector<actors::ProcessRef> add_audience(const ObjectId& id,
                                               const std::vector<actors::ProcessRef>& processes);
  /// Lets readers in `processes` wait until expect_ends(): a broadcast to them is being arranged.
  void expect(const ObjectId& id, const std::vector<actors::ProcessRef>& processes);
  void expect_ends(const ObjectId& id, const std::vector<actors::ProcessRef>& processes);
  /// Adds a copy that comes by the broadcast of this number, which has kBroadcastFlag. It is no
  /// source of others before it is complete: they could wait for the broadcast, and the broadcast
  /// for them.
  void add_receiver(const ObjectId& id, const actors::ProcessRef& holder, const std::string& host,
                    std::uint64_t broadcast);
  /// Adds a complete copy that did not come through locate().
  void add_copy(const ObjectId& id, const actors::ProcessRef& holder, const std::string& host);
  /// Records that a process has received all of its copy, or that it has none. `attempt`: see
  /// LocateRequest, or the number of a broadcast. Ignores a former attempt.
  void received(const ObjectId& id, actors::ProcessId process, std::uint64_t attempt = 0);
  void not_received(const ObjectId& id, actors::ProcessId process, std::uint64_t attempt = 0);
  /// Removes all copies of a process that has ended.
  void process_lost(actors::ProcessId process);

  /// Refuses new readers. Those that receive a copy may end.
  void drop(const ObjectId& id);
  /// Removes a dropped object that nobody receives. Returns the processes that have copies; nullopt
  /// if it is unknown, not dropped, or still being received.
  std::optional<std::vector<actors::ProcessRef>> take_dropped(const ObjectId& id);
  /// Returns the dropped objects.
  std::vector<ObjectId> dropped() const;

 private:
  struct Holder {
    actors::ProcessRef process;
    std::string host;
    bool complete = false;
    actors::ProcessId source = {};  ///< Process that sends to this one; 0: none.
    std::uint64_t attempt = 0;      ///< Attempt of the LocateRequest, or number of the broadcast.

    bool comes_by_broadcast() const { return !complete && (attempt & kBroadcastFlag) != 0; }
  };
  struct Object {
    ObjectDescription description;
    std::vector<Holder> holders;
    bool dropped = false;
    std::set<actors::ProcessId> audience = {};       ///< Receivers of the announced calls.
    std::multiset<actors::ProcessId> expected = {};  ///< Receivers of broadcasts being arranged.
  };
  static bool descends_from(const Object& object, const Holder& holder, actors::ProcessId ancestor);
  static const Holder* choose_source(const Object& object, const LocateRequest& request);
  Object* find(const ObjectId& id);

  std::map<ObjectId, Object> objects_;
};

}  // namespace weft::mesh
