#include "mesh/objects/local_objects.h"

#include <mutex>
#include <utility>

#include "actors/call/first_of.h"
#include "mesh/objects/object_store.h"

namespace weft::mesh {

ObjectOwnership::~ObjectOwnership() {
  if (const auto local = local_.lock()) local->release(object_.id);
}

void ObjectRequest::complete(std::shared_ptr<const ObjectOwnership> ownership) {
  if (!claim()) return;
  ownership_ = std::move(ownership);
  publish();
}

void ObjectRequest::complete(std::shared_ptr<const ObjectMapping> mapping) {
  if (!claim()) return;
  mapping_ = std::move(mapping);
  publish();
}

void ObjectRequest::fail(const Error& error) {
  if (!claim()) return;
  error_ = error;
  publish();
}

void ObjectRequest::cancel() {
  if (done()) return;
  fail(Error(ErrorCode::kCancelled, "the request for " + describe(object_) + " was cancelled"));
  std::shared_ptr<actors::CallState> call;
  {
    const std::lock_guard lock(mutex_);
    call = call_.lock();
  }
  if (call) call->cancel();
}

void ObjectRequest::follow(const std::shared_ptr<actors::CallState>& call) {
  const std::lock_guard lock(mutex_);
  call_ = call;
}

std::shared_ptr<const ObjectOwnership> ObjectRequest::take_ownership() {
  if (error_) throw Error(*error_);
  return std::move(ownership_);
}

std::shared_ptr<const ObjectMapping> ObjectRequest::take_mapping() {
  if (error_) throw Error(*error_);
  return std::move(mapping_);
}

std::shared_ptr<LocalObjects> LocalObjects::of(actors::System& system) {
  return system.attachment<LocalObjects>([&] {
    auto local = std::make_shared<LocalObjects>(system);
    static_cast<void>(
        system.host_with<ObjectStore>(actors::kObjectStoreName, [local](actors::Context& context) {
          auto store = std::make_unique<ObjectStore>(context, *local);
          local->attach(*store, context.poster());
          return store;
        }));
    return local;
  });
}

void LocalObjects::attach(ObjectStore& store, actors::TaskPoster poster) {
  const std::lock_guard lock(mutex_);
  store_ = &store;
  poster_.emplace(std::move(poster));
}

std::uint64_t LocalObjects::enter(const std::shared_ptr<ObjectRequest>& request) {
  const std::lock_guard lock(mutex_);
  requests_[++next_ticket_] = request;
  return next_ticket_;
}

std::shared_ptr<ObjectRequest> LocalObjects::take(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.extract(ticket);
  if (found.empty())
    throw_error(ErrorCode::kInvalidArgument, "the object store has no request {}", ticket);
  return found.mapped();
}

void LocalObjects::end_with(const std::shared_ptr<ObjectRequest>& request, std::uint64_t ticket,
                            const actors::Future<void>& future) {
  const auto call =
      std::static_pointer_cast<actors::CallState>(actors::FirstDone::operation_of(future));
  request->follow(call);
  call->when_done([request, ticket, local = weak_from_this(), state = call.get()] {
    if (!state->error()) return;
    request->fail(*state->error());
    const auto here = local.lock();
    if (!here) return;
    std::shared_ptr<ObjectRequest> forgotten;  // ends without the lock
    const std::lock_guard lock(here->mutex_);
    if (auto found = here->requests_.extract(ticket)) forgotten = std::move(found.mapped());
  });
}

void LocalObjects::put(const std::shared_ptr<ObjectRequest>& request, Nanoseconds within) {
  const auto store = system_.named<ObjectStore>(system_.self(), actors::kObjectStoreName);
  const std::uint64_t ticket = enter(request);
  end_with(request, ticket, store.within(within).call<&ObjectStore::put>(ticket));
}

void LocalObjects::get(const std::shared_ptr<ObjectRequest>& request, Nanoseconds within) {
  const auto store = system_.named<ObjectStore>(system_.self(), actors::kObjectStoreName);
  const std::uint64_t ticket = enter(request);
  end_with(request, ticket, store.within(within).call<&ObjectStore::get>(ticket));
}

actors::Future<StoreStatus> LocalObjects::status() const {
  return system_.named<ObjectStore>(system_.self(), actors::kObjectStoreName)
      .call<&ObjectStore::status>();
}

actors::Future<void> LocalObjects::share(const ObjectDescription& object,
                                         const std::vector<actors::ProcessRef>& processes,
                                         Nanoseconds within) {
  return system_.named<ObjectStore>(object.owner, actors::kObjectStoreName)
      .within(within)
      .call<&ObjectStore::share>(object, processes);
}

actors::Future<void> LocalObjects::discard(const ObjectDescription& object, Nanoseconds within) {
  if (object.backup.id == actors::ProcessId())
    throw_error(ErrorCode::kNotFound, "{} was put with one copy, which ends with its owner",
                describe(object));
  return system_.named<ObjectStore>(object.backup, actors::kObjectStoreName)
      .within(within)
      .call<&ObjectStore::discard>(object);
}

void LocalObjects::release(const ObjectId& id) {
  const std::lock_guard lock(mutex_);
  poster_->post([store = store_, id] { store->release(id); });
}

void LocalObjects::unmapped(const ObjectId& id, const actors::ProcessRef& holder,
                            std::uint64_t mapping) {
  const std::lock_guard lock(mutex_);
  poster_->post([store = store_, id, holder, mapping] { store->unmapped(id, holder, mapping); });
}

}  // namespace weft::mesh
