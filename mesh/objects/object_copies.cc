#include "mesh/objects/object_copies.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "actors/system/system.h"
#include "core/base/private_file.h"
#include "core/base/units.h"
#include "core/spill/spill_file.h"

namespace weft::mesh {

SpilledObject::SpilledObject(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  create_private_folder(path.parent_path());
  write_spilled(path, bytes, SpillWriter::CommitDurability::kProcess);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int why = errno;
  ::unlink(path.c_str());
  if (descriptor_ < 0)
    throw_error(ErrorCode::kUnavailable, "cannot read {}: {}", path.string(), std::strerror(why));
}

SpilledObject::~SpilledObject() { ::close(descriptor_); }

void SpilledObject::read(std::span<std::byte> bytes) const {
  SpillReader file(fmt::format("/proc/self/fd/{}", descriptor_));
  for (auto block = file.next(); !block.empty(); block = file.next()) {
    if (block.size() > bytes.size())
      throw_error(ErrorCode::kDataLoss, "an object on disk is larger than it was");
    std::memcpy(bytes.data(), block.data(), block.size());
    bytes = bytes.subspan(block.size());
  }
  if (!bytes.empty()) throw_error(ErrorCode::kDataLoss, "an object on disk is smaller than it was");
}

actors::task<void> Changes::next(actors::Context& context) {
  const actors::Wakeup wakeup = context.make_wakeup();
  waiting_.push_back(wakeup);
  co_await wakeup.wait();
}

void Changes::notify() {
  for (const actors::Wakeup& each : std::exchange(waiting_, {})) each.notify();
}

ObjectCopies::ObjectCopies(actors::Context& context, std::shared_ptr<HostBudget> budget,
                           std::filesystem::path folder, std::string prefix, Evicted on_evicted)
    : context_(context),
      budget_(std::move(budget)),
      folder_(std::move(folder)),
      prefix_(std::move(prefix)),
      on_evicted_(std::move(on_evicted)) {}

std::shared_ptr<ObjectCopy> ObjectCopies::find(const ObjectId& id) const {
  const auto found = copies_.find(id);
  return found == copies_.end() ? nullptr : found->second;
}

void ObjectCopies::drop(const ObjectId& id) {
  if (const auto copy = find(id)) copy->dropped = true;
  sweep();
}

void ObjectCopies::sweep() {
  std::erase_if(copies_, [](const auto& each) {
    return each.second->dropped && !each.second->busy && !each.second->in_use();
  });
  room_.notify();
}

std::filesystem::path ObjectCopies::next_path(const ObjectDescription& object) {
  return folder_ / fmt::format("{}-{:016x}-{}-{}.object", prefix_, object.id.owner.value(),
                               object.id.number, ++files_);
}

std::shared_ptr<ObjectMemory> ObjectCopies::new_memory(const ObjectDescription& object) const {
  try {
    return std::make_shared<ObjectMemory>(object.id, object.bytes, budget_);
  } catch (...) {
    budget_->release(object.bytes);
    throw;
  }
}

void ObjectCopies::throw_no_room(const ObjectDescription& object, const std::string& disk) const {
  if (object.bytes > budget_->limit())
    throw_error(ErrorCode::kResourceExhausted,
                "{} takes {}, and could not be read: all objects of the host of {} may take {} of "
                "memory (cluster.objects); raise cluster.objects, or put it in parts",
                describe(object), format_bytes(object.bytes), context_.system().self().name,
                format_bytes(budget_->limit()));
  throw_error(ErrorCode::kResourceExhausted,
              "{} takes {}, and the objects of a host may take {} of memory (cluster.objects), of "
              "which {} are in use, {} of them by {}; destroy Mapped views and OwnedObjects, or "
              "raise cluster.objects{}{}",
              describe(object), format_bytes(object.bytes), format_bytes(budget_->limit()),
              format_bytes(budget_->used()), format_bytes(budget_->used_here()),
              context_.system().self().name,
              disk.empty() ? "" : "; the disk has no room either: ", disk);
}

bool ObjectCopies::is_original(const ObjectCopy& copy) const {
  return copy.backup || copy.object.id.owner == context_.system().self().id;
}

template <typename Condition>
std::shared_ptr<ObjectCopy> ObjectCopies::least_recently_used(Condition condition) const {
  std::shared_ptr<ObjectCopy> oldest;
  for (const auto& [id, copy] : copies_)
    if (copy->complete && copy->memory && !copy->busy && !copy->in_use() && condition(*copy) &&
        (!oldest ||
         std::pair(copy->unread, copy->last_use) < std::pair(oldest->unread, oldest->last_use)))
      oldest = copy;
  return oldest;
}

bool ObjectCopies::evict(Claim claim) {
  const auto oldest = least_recently_used([&](const ObjectCopy& copy) {
    return !is_original(copy) && (claim == Claim::kNeeded || !copy.unread);
  });
  if (!oldest) return false;
  copies_.erase(oldest->object.id);
  on_evicted_(*oldest);
  return true;
}

actors::task<bool> ObjectCopies::make_room(const ObjectDescription& object, Claim claim) {
  if (object.bytes > budget_->limit()) throw_no_room(object, "");
  while (!budget_->reserve(object.bytes)) {
    if (evict(claim)) continue;
    if (claim == Claim::kAhead) co_return false;
    const auto oldest =
        least_recently_used([this](const ObjectCopy& copy) { return is_original(copy); });
    if (!oldest && spilling_ == 0) co_return false;
    if (!oldest) {
      co_await room_.next(context_);
      continue;
    }
    std::string problem;
    try {
      auto spilling = spill(oldest);
      co_await spilling;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      problem = error.message();
    }
    if (!problem.empty()) throw_no_room(object, problem);
  }
  co_return true;
}

actors::task<void> ObjectCopies::spill(std::shared_ptr<ObjectCopy> copy) {
  copy->busy = true;
  ++spilling_;
  // The write ends by itself: its handler may be cancelled.
  auto running =
      work_.run(context_, "weft-spill",
                [this, copy, poster = context_.poster(), path = next_path(copy->object)] {
                  std::shared_ptr<const SpilledObject> file;
                  std::optional<Error> failure;
                  try {
                    file = std::make_shared<SpilledObject>(path, copy->memory->bytes());
                  } catch (const Error& error) {
                    failure = error;
                  }
                  poster.post([this, copy, file] { end_spill(*copy, file); });
                  if (failure) throw Error(*failure);
                });
  co_await running;
  while (copy->busy) co_await copy->changes.next(context_);
}

void ObjectCopies::end_spill(ObjectCopy& copy, const std::shared_ptr<const SpilledObject>& file) {
  copy.busy = false;
  --spilling_;
  if (file && !copy.in_use()) {
    copy.spilled = file;
    copy.memory.reset();
  }
  copy.changes.notify();
  sweep();
}

actors::task<void> ObjectCopies::fill(std::shared_ptr<ObjectCopy> copy,
                                      std::span<const std::byte> source,
                                      std::shared_ptr<const void> keep) {
  const CopyUse use(*this, copy);
  auto making = make_room(copy->object);
  const bool has_room = co_await making;
  if (has_room) {
    const auto memory = std::make_shared<std::shared_ptr<ObjectMemory>>();
    auto running =
        work_.run(context_, "weft-put", [this, memory, source, keep, object = copy->object] {
          *memory = new_memory(object);
          if (!source.empty())
            std::memcpy((*memory)->writable().data(), source.data(), source.size());
          (*memory)->seal();
        });
    co_await running;
    copy->memory = std::move(*memory);
  } else {
    const auto file = std::make_shared<std::shared_ptr<const SpilledObject>>();
    std::string problem;
    try {
      auto running =
          work_.run(context_, "weft-spill", [file, source, keep, path = next_path(copy->object)] {
            *file = std::make_shared<SpilledObject>(path, source);
          });
      co_await running;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      problem = error.message();
    }
    if (!problem.empty()) throw_no_room(copy->object, problem);
    copy->spilled = *file;
  }
  copy->landed = copy->object.bytes;
  copy->complete = true;
  touch(*copy);
}

actors::task<void> ObjectCopies::allocate(std::shared_ptr<ObjectCopy> copy, Claim claim) {
  auto making = make_room(copy->object, claim);
  const bool has_room = co_await making;
  if (!has_room) throw_no_room(copy->object, "");
  const auto memory = std::make_shared<std::shared_ptr<ObjectMemory>>();
  auto running = work_.run(context_, "weft-get",
                           [this, memory, object = copy->object] { *memory = new_memory(object); });
  co_await running;
  copy->memory = std::move(*memory);
  touch(*copy);
}

actors::task<void> ObjectCopies::load(std::shared_ptr<ObjectCopy> copy) {
  touch(*copy);
  while (copy->busy) co_await copy->changes.next(context_);
  if (copy->memory) co_return;
  copy->busy = true;
  std::optional<Error> failure;
  try {
    auto making = make_room(copy->object);
    const bool has_room = co_await making;
    if (!has_room) throw_no_room(copy->object, "");
  } catch (const Error& error) {
    failure = error;
  }
  if (failure) {
    end_load(*copy, nullptr);
    throw Error(*failure);
  }
  // The read ends by itself, as in spill().
  auto running = work_.run(context_, "weft-get",
                           [this, copy, poster = context_.poster(), file = copy->spilled] {
                             std::shared_ptr<ObjectMemory> memory;
                             std::optional<Error> problem;
                             try {
                               memory = new_memory(copy->object);
                               file->read(memory->writable());
                               memory->seal();
                             } catch (const Error& error) {
                               memory.reset();
                               problem = error;
                             }
                             poster.post([this, copy, memory] { end_load(*copy, memory); });
                             if (problem) throw Error(*problem);
                           });
  co_await running;
  while (copy->busy) co_await copy->changes.next(context_);
}

void ObjectCopies::end_load(ObjectCopy& copy, const std::shared_ptr<ObjectMemory>& memory) {
  copy.busy = false;
  if (memory) {
    copy.memory = memory;
    copy.spilled.reset();
  }
  copy.changes.notify();
  sweep();
}

}  // namespace weft::mesh
