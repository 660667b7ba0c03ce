#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "actors/call/future.h"
#include "actors/call/pending.h"
#include "actors/system/system.h"
#include "core/base/error.h"
#include "core/base/thread.h"
#include "mesh/objects/object_memory.h"
#include "mesh/objects/object_messages.h"
#include "mesh/objects/object_ref.h"

namespace weft::mesh {

class LocalObjects;
class ObjectStore;

/// Ownership of an object, which is dropped at its end. Any thread.
class ObjectOwnership final {
 public:
  ObjectOwnership(std::weak_ptr<LocalObjects> local, ObjectDescription object)
      : local_(std::move(local)), object_(std::move(object)) {}
  ~ObjectOwnership();
  ObjectOwnership(const ObjectOwnership&) = delete;
  ObjectOwnership& operator=(const ObjectOwnership&) = delete;

  const ObjectDescription& object() const { return object_; }

 private:
  const std::weak_ptr<LocalObjects> local_;  // ends with its system
  const ObjectDescription object_;
};

/// Request of this process to its store: to put an object, or to get one. Completed by the store;
/// a Future waits for it. Any thread.
class ObjectRequest final : public actors::Pending {
 public:
  /// `object`: the object to get, or the one to put, without number and backup.
  explicit ObjectRequest(ObjectDescription object) : object_(std::move(object)) {}

  /// Bytes to put, and their owner.
  std::span<const std::byte> source;
  std::shared_ptr<const void> source_owner;
  std::uint32_t copies = 1;          ///< Number of processes that answer for an object that is put.
  DecodeContext* context = nullptr;  ///< System to which handles in a decoded object belong.

  /// Completes a request to put an object, unless it is done.
  void complete(std::shared_ptr<const ObjectOwnership> ownership);
  /// Completes a request to get an object, unless it is done.
  void complete(std::shared_ptr<const ObjectMapping> mapping);
  void fail(const Error& error);
  void cancel() override;
  /// Passes on a later cancel(), and the error of the call that carries the request.
  void follow(const std::shared_ptr<actors::CallState>& call);

  const ObjectDescription& object() const { return object_; }
  /// Returns the result of a put, or throws its error. Once, after done.
  std::shared_ptr<const ObjectOwnership> take_ownership();
  /// Returns the result of a get, or throws its error. Once, after done.
  std::shared_ptr<const ObjectMapping> take_mapping();

 private:
  const ObjectDescription object_;
  std::shared_ptr<const ObjectOwnership> ownership_;
  std::shared_ptr<const ObjectMapping> mapping_;
  std::optional<Error> error_;
  Mutex mutex_;                              // guards call_
  std::weak_ptr<actors::CallState> call_{};  // the call holds this request
};

/// This process's end of its object store, shared by all its handles. Hosts the store at first use.
/// Any thread.
class LocalObjects final : public std::enable_shared_from_this<LocalObjects> {
 public:
  /// Returns the one of a process.
  static std::shared_ptr<LocalObjects> of(actors::System& system);

  explicit LocalObjects(actors::System& system) : system_(system) {}

  actors::System& system() const { return system_; }
  /// Sends a request to the store. kDefaultDeadline: that of the system.
  void put(const std::shared_ptr<ObjectRequest>& request, Nanoseconds within);
  void get(const std::shared_ptr<ObjectRequest>& request, Nanoseconds within);
  actors::Future<StoreStatus> status() const;
  /// Asks the owner's store to copy an object to the hosts of `processes`.
  actors::Future<void> share(const ObjectDescription& object,
                             const std::vector<actors::ProcessRef>& processes, Nanoseconds within);
  /// Asks the store that answers for a dead owner's object to free it.
  actors::Future<void> discard(const ObjectDescription& object, Nanoseconds within);
  /// Tells the store that the owner has dropped an object.
  void release(const ObjectId& id);
  /// Tells the store that this process does not read an object any more. See ObjectStore::unmapped.
  void unmapped(const ObjectId& id, const actors::ProcessRef& holder, std::uint64_t mapping);

  // Used by the store.
  std::shared_ptr<ObjectRequest> take(std::uint64_t ticket);
  void attach(ObjectStore& store, actors::TaskPoster poster);

 private:
  std::uint64_t enter(const std::shared_ptr<ObjectRequest>& request);
  /// Lets `request` end with the error of the call that carries it. Forgets its ticket if the store
  /// has not taken it.
  void end_with(const std::shared_ptr<ObjectRequest>& request, std::uint64_t ticket,
                const actors::Future<void>& future);

  actors::System& system_;
  Mutex mutex_;  // guards the members below
  std::uint64_t next_ticket_ = 0;
  std::map<std::uint64_t, std::shared_ptr<ObjectRequest>> requests_;
  ObjectStore* store_ = nullptr;
  std::optional<actors::TaskPoster> poster_;  // drops tasks after the end of the store
};

}  // namespace weft::mesh
