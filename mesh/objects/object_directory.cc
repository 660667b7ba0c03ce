#include "mesh/objects/object_directory.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/base/error.h"

namespace weft::mesh {

void ObjectDirectory::add(const ObjectDescription& object, const actors::ProcessRef& holder,
                          const std::string& host) {
  objects_[object.id] = {object, {{holder, host, true, {}, 0}}, false};
}

ObjectDirectory::Object* ObjectDirectory::find(const ObjectId& id) {
  const auto found = objects_.find(id);
  return found == objects_.end() ? nullptr : &found->second;
}

std::optional<LocateReply> ObjectDirectory::locate(const LocateRequest& request) {
  Object* const object = find(request.object.id);
  const auto of_reader = [&](const Holder& each) { return each.process.id == request.reader.id; };
  const bool receives =
      object != nullptr && std::ranges::any_of(object->holders, [&](const Holder& each) {
        return of_reader(each) && !each.complete;
      });
  if (object == nullptr || (object->dropped && !receives))
    throw_error(ErrorCode::kNotFound,
                "{} does not exist any more: its owner has dropped it; keep its OwnedObject until "
                "all readers have it",
                describe(request.object));
  check_object_type(object->description, request.object.type);
  const auto failed = [&](const Holder& each) {
    return std::ranges::find(request.failed, each.process.id) != request.failed.end();
  };
  const auto own = std::ranges::find_if(object->holders, of_reader);
  if (own != object->holders.end()) {
    // A broadcast may have brought the copy after the reader asked.
    if (own->complete && !failed(*own)) return LocateReply{LocateReply::Action::kMap, own->process};
    if (own->comes_by_broadcast() && request.failed.empty()) return std::nullopt;
    // The reader asks again if its source has failed, or if it has lost its copy.
    own->complete = false;
    own->source = {};
    own->attempt = request.attempt;
  } else {
    const Holder* neighbour = nullptr;
    for (const Holder& each : object->holders)
      if (each.host == request.host && !failed(each) &&
          (neighbour == nullptr || (each.complete && !neighbour->complete)))
        neighbour = &each;
    if (neighbour != nullptr && neighbour->complete)
      return LocateReply{LocateReply::Action::kMap, neighbour->process};
    const bool expected = request.failed.empty() && object->expected.contains(request.reader.id);
    if (neighbour != nullptr || expected) return std::nullopt;
  }
  const Holder* const source = choose_source(*object, request);
  if (source == nullptr) {
    if (own != object->holders.end()) object->holders.erase(own);
    throw_error(
        ErrorCode::kUnavailable,
        "no process is left from which {} could get {}: it has failed with {} of them; call "
        "get() again",
        request.reader.name, describe(request.object), request.failed.size());
  }
  const LocateReply reply{LocateReply::Action::kPull, source->process};
  if (own != object->holders.end()) own->source = reply.holder.id;
  else
    object->holders.push_back(
        {request.reader, request.host, false, reply.holder.id, request.attempt});
  return reply;
}

const ObjectDirectory::Holder* ObjectDirectory::choose_source(const Object& object,
                                                              const LocateRequest& request) {
  const Holder* best = nullptr;
  std::tuple<std::size_t, bool> least;
  for (const Holder& each : object.holders) {
    if (each.process.id == request.reader.id || each.comes_by_broadcast() ||
        std::ranges::find(request.failed, each.process.id) != request.failed.end() ||
        descends_from(object, each, request.reader.id))
      continue;
    const auto receivers = std::ranges::count_if(object.holders, [&](const Holder& other) {
      return !other.complete && other.process.id != request.reader.id &&
             other.source == each.process.id;
    });
    const std::tuple load(static_cast<std::size_t>(receivers), !each.complete);
    if (best != nullptr && load >= least) continue;
    best = &each;
    least = load;
  }
  return best;
}

bool ObjectDirectory::descends_from(const Object& object, const Holder& holder,
                                    actors::ProcessId ancestor) {
  const Holder* at = &holder;
  // A chain cannot be longer than the number of holders.
  for (std::size_t step = 0; step < object.holders.size(); ++step) {
    if (at->complete || at->source == actors::ProcessId()) return false;
    if (at->source == ancestor) return true;
    const auto next = std::ranges::find_if(
        object.holders, [&](const Holder& each) { return each.process.id == at->source; });
    if (next == object.holders.end()) return false;
    at = &*next;
  }
  return true;
}

bool ObjectDirectory::has_readers(const ObjectId& id) const {
  const auto found = objects_.find(id);
  return found != objects_.end() && !found->second.dropped;
}

bool ObjectDirectory::has_copy(const ObjectId& id, const std::string& host) const {
  const auto found = objects_.find(id);
  return found != objects_.end() &&
         std::ranges::any_of(found->second.holders,
                             [&](const Holder& each) { return each.host == host; });
}

std::vector<actors::ProcessRef> ObjectDirectory::add_audience(
    const ObjectId& id, const std::vector<actors::ProcessRef>& processes) {
  std::vector<actors::ProcessRef> added;
  Object* const object = find(id);
  if (object == nullptr || object->dropped) return added;
  for (const actors::ProcessRef& each : processes)
    if (object->audience.insert(each.id).second) added.push_back(each);
  return added;
}

void ObjectDirectory::expect(const ObjectId& id, const std::vector<actors::ProcessRef>& processes) {
  if (Object* const object = find(id))
    for (const actors::ProcessRef& each : processes) object->expected.insert(each.id);
}

void ObjectDirectory::expect_ends(const ObjectId& id,
                                  const std::vector<actors::ProcessRef>& processes) {
  if (Object* const object = find(id))
    for (const actors::ProcessRef& each : processes)
      if (const auto at = object->expected.find(each.id); at != object->expected.end())
        object->expected.erase(at);
}

void ObjectDirectory::add_receiver(const ObjectId& id, const actors::ProcessRef& holder,
                                   const std::string& host, std::uint64_t broadcast) {
  if (Object* const object = find(id))
    object->holders.push_back({holder, host, false, {}, broadcast});
}

void ObjectDirectory::add_copy(const ObjectId& id, const actors::ProcessRef& holder,
                               const std::string& host) {
  if (Object* const object = find(id)) object->holders.push_back({holder, host, true, {}, 0});
}

void ObjectDirectory::received(const ObjectId& id, actors::ProcessId process,
                               std::uint64_t attempt) {
  Object* const object = find(id);
  if (object == nullptr) return;
  for (Holder& each : object->holders)
    if (each.process.id == process && each.attempt == attempt) each.complete = true;
}

void ObjectDirectory::not_received(const ObjectId& id, actors::ProcessId process,
                                   std::uint64_t attempt) {
  if (Object* const object = find(id))
    std::erase_if(object->holders, [&](const Holder& each) {
      return each.process.id == process && each.attempt == attempt;
    });
}

void ObjectDirectory::process_lost(actors::ProcessId process) {
  for (auto& [id, object] : objects_) {
    std::erase_if(object.holders, [&](const Holder& each) { return each.process.id == process; });
    object.audience.erase(process);
  }
}

void ObjectDirectory::drop(const ObjectId& id) {
  if (Object* const object = find(id)) object->dropped = true;
}

std::optional<std::vector<actors::ProcessRef>> ObjectDirectory::take_dropped(const ObjectId& id) {
  const Object* const object = find(id);
  if (object == nullptr || !object->dropped ||
      std::ranges::any_of(object->holders, [](const Holder& each) { return !each.complete; }))
    return std::nullopt;
  std::vector<actors::ProcessRef> holders;
  for (const Holder& each : object->holders) holders.push_back(each.process);
  objects_.erase(id);
  return holders;
}

std::vector<ObjectId> ObjectDirectory::dropped() const {
  std::vector<ObjectId> ids;
  for (const auto& [id, object] : objects_)
    if (object.dropped) ids.push_back(id);
  return ids;
}

}  // namespace weft::mesh
