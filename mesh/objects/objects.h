#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "actors/call/future.h"
#include "actors/cluster/cluster.h"
#include "actors/system/system.h"
#include "core/base/check.h"
#include "mesh/objects/local_objects.h"
#include "mesh/objects/object_messages.h"
#include "mesh/objects/object_ref.h"

namespace weft::mesh {

/// Owner of an object of this process; an ObjectRef keeps nothing alive. The object is freed when
/// its owner is destroyed and its readers are done, or with the process; after the death of the
/// process a second copy (PutOptions::copies) stays. Move-only. Any thread.
template <typename T>
class OwnedObject final {
 public:
  explicit OwnedObject(std::shared_ptr<const ObjectOwnership> ownership)
      : ownership_(std::move(ownership)) {}
  OwnedObject(OwnedObject&&) noexcept = default;
  OwnedObject& operator=(OwnedObject&&) noexcept = default;

  ObjectRef<T> ref() const { return ObjectRef<T>(ownership_->object()); }
  std::uint64_t bytes() const { return ownership_->object().bytes; }

 private:
  std::shared_ptr<const ObjectOwnership> ownership_;  // shared with the request that made it
};

/// Read-only view of an object, which keeps its bytes alive: span() of vectors, arrays and strings
/// of trivially copyable elements, whose memory the readers of a host share; value() of all other
/// types, which are decoded. Copies share the view. Any thread.
template <typename T>
class Mapped final {
 public:
  using Element = typename internal::MappedElement<T>::Type;
  explicit Mapped(std::shared_ptr<const ObjectMapping> mapping, DecodeContext* context)
      : mapping_(std::move(mapping)) {
    if constexpr (!kIsMappedObject<T>)
      value_ = std::make_shared<const T>(decode<T>(mapping_->bytes(), context));
  }

  std::span<const std::byte> bytes() const { return mapping_->bytes(); }
  auto span() const {
    static_assert(kIsMappedObject<T>, "this type is decoded: use value()");
    return std::span(reinterpret_cast<const Element*>(bytes().data()),
                     bytes().size() / sizeof(Element));
  }
  const T& value() const {
    static_assert(!kIsMappedObject<T>, "the bytes of this type are mapped: use span()");
    return *value_;
  }

 private:
  std::shared_ptr<const ObjectMapping> mapping_;  // shared by the readers of the process
  std::shared_ptr<const T> value_;                // shared by copies; null if mapped
};

struct PutOptions {
  /// Number of processes that hold the object and answer for it: 1, or 2, so that it survives the
  /// death of its owner. The second one is on another host if possible, and has a mesh::Objects.
  std::uint32_t copies = 1;
  /// Deadline; kDefaultDeadline: that of the system.
  Nanoseconds within = actors::kNoDeadline;
};

/// Objects of this process and its cluster: immutable values too large for a message, of which each
/// host has one copy in memory that its processes share. A light handle of the process's store,
/// which the first one starts.
///
///   OwnedObject<std::vector<float>> weights = objects.put(std::move(floats)).get();
///   pool.call<&Worker::load>(weights.ref());              // ObjectRef: an argument like any other
///   Mapped<std::vector<float>> view = co_await objects.get(ref);         // in a handler
///
/// Any thread. The System must be alive.
class Objects final {
 public:
  explicit Objects(actors::System& system) : local_(LocalObjects::of(system)) {}
  explicit Objects(const actors::Context& context) : Objects(context.system()) {}
  explicit Objects(actors::Cluster& cluster) : Objects(cluster.system()) {}

  /// Puts an object, whose bytes are copied once. Fails with kResourceExhausted if the memory for
  /// objects and the disk have no room, kUnavailable if there is no process for a second copy.
  template <typename T>
  actors::Future<OwnedObject<T>> put(T value, const PutOptions& options = {}) {
    ObjectDescription object;
    object.type = object_fingerprint<T>();
    std::shared_ptr<const void> keep;
    std::span<const std::byte> source;
    if constexpr (kIsMappedObject<T>) {
      const auto kept = std::make_shared<const T>(std::move(value));
      source = std::as_bytes(std::span(kept->data(), kept->size()));
      keep = kept;
    } else {
      const auto kept = std::make_shared<const std::vector<std::byte>>(encode(value));
      source = *kept;
      keep = kept;
    }
    object.bytes = source.size();
    const auto request = std::make_shared<ObjectRequest>(std::move(object));
    request->source = source;
    request->source_owner = std::move(keep);
    request->copies = options.copies;
    local_->put(request, options.within);
    return actors::Future<OwnedObject<T>>(request, [](actors::Pending& pending) {
      return OwnedObject<T>(static_cast<ObjectRequest&>(pending).take_ownership());
    });
  }

  /// Returns a view of an object. All readers of a host wait for its one copy. Fails with
  /// kNotFound if the owner has dropped it, with the incident if the owner has died,
  /// kResourceExhausted if the host has no room, kIncompatible if it has another type.
  template <typename T>
  actors::Future<Mapped<T>> get(const ObjectRef<T>& ref, Nanoseconds within = actors::kNoDeadline) {
    if (!ref) throw_error(ErrorCode::kInvalidArgument, "get() was called with an empty ObjectRef");
    const auto request = std::make_shared<ObjectRequest>(ref.description());
    request->context = &local_->system();
    local_->get(request, within);
    return actors::Future<Mapped<T>>(request, [](actors::Pending& pending) {
      auto& done = static_cast<ObjectRequest&>(pending);
      return Mapped<T>(done.take_mapping(), done.context);
    });
  }

  /// Copies an object to all hosts of a mesh whose actors have a mesh::Objects, by one planned
  /// broadcast, so that later readers there find it. Hosts that die meanwhile are left out. Fails
  /// with kFailedPrecondition if no actor of the mesh has a mesh::Objects. Calls of a mesh do so by
  /// themselves for objects of at least 1 MiB, but only where memory is free.
  ///   objects.share(weights.ref(), pool.ref()).get();
  ///   pool.call<&Worker::load>(weights.ref()).get();
  template <typename T, typename Actor>
  actors::Future<void> share(const ObjectRef<T>& ref, const actors::MeshRef<Actor>& mesh,
                             Nanoseconds within = actors::kNoDeadline) {
    std::vector<actors::ProcessRef> processes;
    for (const actors::ActorAddress& actor : mesh.addresses()) processes.push_back(actor.process);
    return local_->share(ref.description(), processes, within);
  }

  /// Frees an object whose owner has died, once its readers are done: its second copy
  /// (PutOptions::copies) is left, and no OwnedObject. Any process may do so. Fails with
  /// kFailedPrecondition if the owner lives, kNotFound if there is no second copy any more.
  template <typename T>
  actors::Future<void> discard(const ObjectRef<T>& ref, Nanoseconds within = actors::kNoDeadline) {
    return local_->discard(ref.description(), within);
  }

  /// Returns the state of this process's store.
  actors::Future<StoreStatus> status() const { return local_->status(); }

 private:
  std::shared_ptr<LocalObjects> local_;  // shared by the handles of the process
};

}  // namespace weft::mesh
