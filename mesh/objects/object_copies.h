#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/call/task.h"
#include "actors/call/wakeup.h"
#include "actors/cluster/blocking_work.h"
#include "actors/system/context.h"
#include "core/base/error.h"
#include "mesh/objects/host_budget.h"
#include "mesh/objects/object_memory.h"
#include "mesh/objects/object_ref.h"

namespace weft::mesh {

/// Handlers that wait for the next change of something. Actor's thread only.
class Changes final {
 public:
  /// Returns after the next notify().
  actors::task<void> next(actors::Context& context);
  void notify();

 private:
  std::vector<actors::Wakeup> waiting_;
};

/// Object on disk, in a file without a name, which ends with this process. Any thread.
class SpilledObject final {
 public:
  /// Writes `bytes`; for a moment the file has the name `path`. Throws Error(kResourceExhausted) if
  /// the disk is full, Error(kUnavailable) if the folder cannot be used.
  SpilledObject(const std::filesystem::path& path, std::span<const std::byte> bytes);
  ~SpilledObject();
  SpilledObject(const SpilledObject&) = delete;
  SpilledObject& operator=(const SpilledObject&) = delete;

  /// Throws Error(kDataLoss) if the file is damaged or has another size than `bytes`.
  void read(std::span<std::byte> bytes) const;

 private:
  int descriptor_ = -1;
};

/// Copy of an object in this process: in memory, on disk, or still arriving.
struct ObjectCopy {
  explicit ObjectCopy(ObjectDescription description) : object(std::move(description)) {}

  const ObjectDescription object;
  std::shared_ptr<ObjectMemory> memory;  ///< Shared with transfers and mappings; null: not here.
  std::shared_ptr<const SpilledObject> spilled;  ///< Shared with a thread that reads it.
  std::uint64_t landed = 0;                      ///< Bytes from the beginning that have arrived.
  bool complete = false;
  bool busy = false;          ///< True while it is written to disk or read from it.
  bool dropped = false;       ///< True if its owner has dropped it; it ends with its last reader.
  bool backup = false;        ///< True if this process answers for it after its owner's death.
  bool unread = false;        ///< True if it came ahead of its readers, and none has come.
  std::uint64_t attempt = 0;  ///< Number in its directory, see ObjectDirectory::received().
  std::optional<Error> failure;                ///< Reason why it will not be complete.
  std::weak_ptr<const ObjectMapping> mapping;  ///< Mapping of this process's readers.
  /// Numbers of the mappings in other processes.
  std::map<actors::ProcessId, std::set<std::uint64_t>> readers{};
  std::size_t users = 0;  ///< Running handlers that need its bytes.
  std::uint64_t last_use = 0;
  Changes changes;

  bool in_use() const { return users > 0 || !readers.empty() || !mapping.expired(); }
};

/// Which copies make room for another one.
enum class Claim : std::uint8_t {
  kNeeded,  ///< All that nobody uses: a reader waits.
  kAhead,   ///< Copies of other processes' objects that were read: a reader may come.
};

/// Copies of objects in this process, and the memory and disk that they take. At the host's limit,
/// copies that nobody uses make room, the least recently used one first. Copies of other processes'
/// objects end, as they can be received again. Then objects for which this process answers move to
/// disk.
///
/// Actor's thread only; its owner destroys it after the actor's end.
class ObjectCopies final {
 public:
  /// `prefix`: beginning of the names of this process's files in `folder`. `on_evicted`: called
  /// when a copy of another process's object ends to make room.
  using Evicted = std::function<void(const ObjectCopy&)>;
  ObjectCopies(actors::Context& context, std::shared_ptr<HostBudget> budget,
               std::filesystem::path folder, std::string prefix, Evicted on_evicted);

  /// Returns a copy; null if there is none.
  std::shared_ptr<ObjectCopy> find(const ObjectId& id) const;
  void insert(const std::shared_ptr<ObjectCopy>& copy) { copies_[copy->object.id] = copy; }
  /// Forgets a copy that is not used. Marks a used one as dropped: it ends later, in sweep().
  void drop(const ObjectId& id);
  /// Forgets dropped copies that are not used any more.
  void sweep();
  const std::map<ObjectId, std::shared_ptr<ObjectCopy>>& all() const { return copies_; }

  /// Makes a complete copy of `source`, in memory or, if there is no room, on disk. `keep`: owner
  /// of `source`. Throws Error(kResourceExhausted) if neither has room.
  actors::task<void> fill(std::shared_ptr<ObjectCopy> copy, std::span<const std::byte> source,
                          std::shared_ptr<const void> keep);
  /// Gives memory to a copy that is to arrive. Throws Error(kResourceExhausted).
  actors::task<void> allocate(std::shared_ptr<ObjectCopy> copy, Claim claim = Claim::kNeeded);
  /// Reads a complete copy from disk if it is not in memory. Throws Error(kResourceExhausted) if
  /// there is no room, Error(kDataLoss) if the file is damaged.
  actors::task<void> load(std::shared_ptr<ObjectCopy> copy);
  /// Notes that a copy was used.
  void touch(ObjectCopy& copy) { copy.last_use = ++uses_; }

 private:
  /// Reserves memory, after other copies have made room if needed. Returns false if no copy may.
  /// Throws if the disk is full.
  actors::task<bool> make_room(const ObjectDescription& object, Claim claim = Claim::kNeeded);
  /// Ends the least recently used copy of another process's object. Returns false if there is none.
  bool evict(Claim claim);
  /// Returns true if a copy answers for its object, and so cannot be received again.
  bool is_original(const ObjectCopy& copy) const;
  /// Moves a copy to disk, unless it is used meanwhile.
  actors::task<void> spill(std::shared_ptr<ObjectCopy> copy);
  /// Ends spill(). `file`: null if the write has failed.
  void end_spill(ObjectCopy& copy, const std::shared_ptr<const SpilledObject>& file);
  /// Ends load(). `memory`: null if it has failed.
  void end_load(ObjectCopy& copy, const std::shared_ptr<ObjectMemory>& memory);
  /// Returns the least recently used copy in memory that fulfils `condition` and that nobody uses.
  template <typename Condition>
  std::shared_ptr<ObjectCopy> least_recently_used(Condition condition) const;
  /// Returns a path that no other thread uses: one that outlived its handler may still write.
  std::filesystem::path next_path(const ObjectDescription& object);
  /// Returns memory that is reserved already, and that it returns to the budget.
  std::shared_ptr<ObjectMemory> new_memory(const ObjectDescription& object) const;
  /// `disk`: problem of the disk; may be empty.
  [[noreturn]] void throw_no_room(const ObjectDescription& object, const std::string& disk) const;

  actors::Context& context_;
  const std::shared_ptr<HostBudget> budget_;  // shared with memory that outlives this object
  const std::filesystem::path folder_;
  const std::string prefix_;
  const Evicted on_evicted_;
  std::map<ObjectId, std::shared_ptr<ObjectCopy>> copies_;  // shared with handlers
  std::uint64_t uses_ = 0;
  std::uint64_t files_ = 0;
  std::size_t spilling_ = 0;
  Changes room_;
  actors::BlockingWork work_;
};

/// Keeps a copy in memory as long as a handler needs it. Ends before its ObjectCopies.
class CopyUse final {
 public:
  CopyUse(ObjectCopies& copies, std::shared_ptr<ObjectCopy> copy)
      : copies_(copies), copy_(std::move(copy)) {
    ++copy_->users;
  }
  ~CopyUse() {
    --copy_->users;
    if (copy_->dropped) copies_.sweep();
  }
  CopyUse(const CopyUse&) = delete;
  CopyUse& operator=(const CopyUse&) = delete;

 private:
  ObjectCopies& copies_;
  const std::shared_ptr<ObjectCopy> copy_;  // may be removed from its ObjectCopies meanwhile
};

}  // namespace weft::mesh
