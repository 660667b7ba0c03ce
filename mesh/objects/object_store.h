#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "actors/call/task.h"
#include "actors/system/system.h"
#include "mesh/objects/local_objects.h"
#include "mesh/objects/notice_queue.h"
#include "mesh/objects/object_copies.h"
#include "mesh/objects/object_directory.h"
#include "mesh/objects/object_messages.h"
#include "mesh/objects/segment_transfer.h"
#include "transfer/reshard/repair.h"

namespace weft::mesh {

/// Keeps a list of objects that handlers look for. Wakes other readers of the object at its end.
class Opening final {
 public:
  struct Search {
    Changes changes;
    /// True while it waits for the directory's answer; a broadcast may bring the object meanwhile.
    bool asks_directory = false;
  };
  using List = std::map<ObjectId, std::shared_ptr<Search>>;  // shared with handlers that wait
  Opening(List& list, const ObjectId& id) : list_(list), id_(id) {
    list_[id] = std::make_shared<Search>();
  }
  ~Opening() {
    const auto ended = list_.extract(id_);
    ended.mapped()->changes.notify();
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

 private:
  List& list_;
  const ObjectId id_;
};

/// Store of the objects of one process: it answers for those that the process has put, and holds
/// copies for the readers of its host. Processes find it by the name kObjectStoreName.
///
///   reader's store            owner's store               source's store
///      │ locate ───────────────▶ ObjectDirectory               │
///      │ ◀── map at a process of this host, or pull from ... ──│
///      │ send(segment), several at a time ─────────────────────▶ waits until it has it
///      │ ◀═══ segment over the data plane (SegmentTransfer) ═══│
///      │ received ─────────────▶
///
/// An actor, hosted by LocalObjects.
class ObjectStore final {
 public:
  ObjectStore(actors::Context& context, LocalObjects& local);

  // Calls of this process. `ticket`: see LocalObjects::take().
  actors::task<void> put(std::uint64_t ticket);
  actors::task<void> get(std::uint64_t ticket);
  /// Notes that the owner has dropped an object.
  void release(const ObjectId& id);
  /// Notes that this process does not read an object any more. `holder`: the other process whose
  /// memory it mapped, and `mapping` its number there; id 0: none.
  void unmapped(const ObjectId& id, const actors::ProcessRef& holder, std::uint64_t mapping);

  // Calls of other stores.
  /// Returns where the reader finds an object. Suspends while another process of its host receives
  /// it.
  actors::task<LocateReply> locate(LocateRequest request);
  /// Takes what other stores tell, see NoticeQueue.
  void notify(const std::vector<Notice>& notices);
  /// Returns the memory of a copy that is here, and notes a mapping of the caller. `mapping`: its
  /// number, of those of the caller.
  actors::task<MemoryLocation> map(ObjectId id, std::uint64_t mapping);
  /// Makes the caller known to this process's data plane.
  DataPlaneHello connect(const DataPlaneHello& hello);
  /// Sends a part of an object to the caller, once it is here.
  actors::task<void> send(SendRequest request);
  /// Gets a copy of the caller's object, and answers for it after the caller's death.
  actors::task<void> keep(ObjectDescription object);
  /// Frees an object whose owner has died, and for which this process answers.
  void discard(const ObjectDescription& object);
  /// Copies an object of this process to the hosts of `processes`, by one planned broadcast.
  actors::task<void> share(ObjectDescription object, std::vector<actors::ProcessRef> processes);
  /// Expects readers in `processes`: calls that carry a reference are on their way there. Like
  /// share(), once per process and object, but only if several hosts lack the object and have
  /// memory for it; readers elsewhere pull. Does not throw.
  actors::task<void> announce(ObjectDescription object, std::vector<actors::ProcessRef> processes);
  /// Gets ready to receive an object by a broadcast. Returns the address on the data plane.
  actors::task<BroadcastReady> begin_broadcast(BroadcastStart start);
  /// Takes part in a broadcast, or in its repair.
  actors::task<BroadcastReport> broadcast(BroadcastPart part);
  StoreStatus status() const;

  static constexpr auto endpoints = actors::interface<"mesh.objects", 1>(
      actors::on<&ObjectStore::put>("put", actors::concurrent),
      actors::on<&ObjectStore::get>("get", actors::concurrent),
      actors::on<&ObjectStore::locate>("locate", actors::concurrent),
      actors::on<&ObjectStore::notify>("notify", actors::urgent),
      actors::on<&ObjectStore::map>("map", actors::concurrent),
      actors::on<&ObjectStore::connect>("connect", actors::urgent),
      actors::on<&ObjectStore::send>("send", actors::urgent),
      actors::on<&ObjectStore::keep>("keep", actors::concurrent),
      actors::on<&ObjectStore::discard>("discard", actors::urgent),
      actors::on<&ObjectStore::share>("share", actors::concurrent),
      actors::on<&ObjectStore::announce>("announce", actors::concurrent,
                                         actors::deadline(actors::kNoDeadline)),
      actors::on<&ObjectStore::begin_broadcast>("begin_broadcast", actors::concurrent),
      actors::on<&ObjectStore::broadcast>("broadcast", actors::concurrent),
      actors::on<&ObjectStore::status>("status", actors::urgent));

 private:
  using CopyPtr = std::shared_ptr<ObjectCopy>;
  actors::ActorRef<ObjectStore> store_of(const actors::ProcessRef& process) const;
  std::shared_ptr<ObjectRequest> take(std::uint64_t ticket) const;
  void process_lost(const actors::ProcessRef& process, const Error& why);
  /// Throws unless the running handler's caller is connected and still waits. Call it after an
  /// await and before noting something about the caller that its loss or its notice ends.
  void check_caller(const actors::ProcessRef& caller) const;
  bool is_connected(const actors::ProcessRef& process) const;
  void tell(const actors::ProcessRef& process, Notice::Kind kind, const ObjectId& id,
            std::uint64_t number = 0);
  /// Handlers of notices.
  void take_notice(const Notice& notice, actors::ProcessId sender);
  void reader_done(const ObjectId& id, actors::ProcessId reader, std::uint64_t mapping);
  void drop(const ObjectId& id);
  /// Ends the broadcast of this number; nullopt: of any. `complete`: the object is here.
  void end_broadcast(const ObjectId& id, std::optional<std::uint64_t> number, bool complete);
  /// Completes a copy that has arrived, or gives it up.
  static void finish(ObjectCopy& copy);
  static void abandon(ObjectCopy& copy, const Error& why);
  /// Tells the copies of dropped objects, once nobody receives them.
  void finish_drops();
  /// Copies an object to another process that has a store, preferably on another host. Returns the
  /// process.
  actors::task<actors::ProcessRef> copy_elsewhere(ObjectDescription object);

  /// Waits until no other handler of this process receives the object. `also_asks`: nor asks the
  /// directory for it.
  actors::task<void> wait_until_nobody_opens(ObjectId id, bool also_asks);
  /// Returns the mapping of this process's readers, of a complete copy.
  actors::task<std::shared_ptr<const ObjectMapping>> map_copy(CopyPtr copy);
  /// Returns a mapping of an object, from wherever it is.
  actors::task<std::shared_ptr<const ObjectMapping>> open(ObjectDescription object);
  /// Maps or receives an object as its directory says. Returns null if the directory must be asked
  /// again. Adds processes that cannot give it to `failed`, which outlives the task.
  actors::task<std::shared_ptr<const ObjectMapping>> open_once(
      ObjectDescription object, std::vector<actors::ProcessId>& failed);
  /// Asks the store that answers for an object: the owner's or, after its death, the backup's.
  actors::task<LocateReply> ask_directory(LocateRequest request);
  actors::task<LocateReply> locate_here(LocateRequest request);
  actors::task<std::shared_ptr<const ObjectMapping>> map_elsewhere(ObjectDescription object,
                                                                   actors::ProcessRef holder);
  /// Tells the store that answers for an object whether this process has received it.
  void report(const ObjectDescription& object, std::uint64_t attempt, bool has_received);

  // Receiving (object_pull.cc).
  struct Segment;
  /// Receives an object from `source`, or from others if that fails. Returns false if a process of
  /// this host has it meanwhile. `failed`: see open_once().
  actors::task<bool> pull(CopyPtr copy, actors::ProcessRef source,
                          std::vector<actors::ProcessId>& failed, std::uint64_t attempt);
  /// Receives what is missing from `source`.
  actors::task<void> pull_from(CopyPtr copy, actors::ProcessRef source);
  std::shared_ptr<Segment> begin_segment(const CopyPtr& copy, const actors::ProcessRef& source,
                                         std::uint64_t offset, std::uint64_t bytes);
  // Broadcasts (object_broadcast.cc).
  struct Member;
  struct Arriving;
  static CopyPtr copy_of(const Arriving& arriving);
  class Expecting;
  /// Returns a process for each host that lacks the object.
  actors::task<std::vector<Member>> find_members(ObjectDescription object,
                                                 std::vector<actors::ProcessRef> processes);
  actors::task<void> share_with(ObjectDescription object, std::vector<actors::ProcessRef> processes,
                                Claim claim);
  /// Broadcasts to `members`, whose deaths it repairs. Marks those that have the object. `number`
  /// and `claim`: see BroadcastStart.
  actors::task<void> broadcast_to(CopyPtr copy, std::vector<Member>& members, std::uint64_t number,
                                  Claim claim);
  /// Executes one plan among the living members. Returns the landed chunks of the members.
  actors::task<std::vector<transfer::LandedReport>> execute_plan(const CopyPtr& copy,
                                                                 std::vector<Member>& members,
                                                                 const transfer::ReshardPlan& plan,
                                                                 std::uint64_t number);
  /// Ends the part of a member that has failed.
  void leave_out(Member& member, const ObjectDescription& object, std::uint64_t number,
                 const Error& why);
  actors::task<BroadcastReport> take_part(BroadcastPart part, std::shared_ptr<ObjectMemory> memory,
                                          bool writes);
  actors::task<void> connect_to(actors::ProcessRef process);
  DataPlaneHello open_data_plane();

  actors::Context& context_;
  LocalObjects& local_;
  const std::string host_;
  NoticeQueue notices_;
  std::uint64_t next_number_ = 0;
  std::uint64_t last_attempt_ = 0;
  std::uint64_t last_mapping_ = 0;
  std::uint64_t last_broadcast_ = 0;
  std::size_t announced_broadcasts_ = 0;  ///< Running ones.
  Changes announced_broadcast_ended_;
  std::uint64_t bytes_received_ = 0, bytes_sent_ = 0, broadcasts_ = 0;
  ObjectDirectory directory_;
  Changes directory_changes_;
  struct Foreign {
    ObjectDescription object;
    std::weak_ptr<const ObjectMapping> mapping;
  };
  std::map<ObjectId, Foreign> foreign_;                     ///< Memory of other processes.
  Opening::List opening_;                                   ///< Objects that a handler looks for.
  std::map<ObjectId, std::shared_ptr<Arriving>> arriving_;  ///< Shared with their handlers.
  const std::filesystem::path folder_;                      ///< For objects on disk.
  std::shared_ptr<HostBudget> budget_;                      // shared with memory
  std::unique_ptr<ObjectCopies> copies_;
  SegmentTransfer transfer_;
};

}  // namespace weft::mesh
