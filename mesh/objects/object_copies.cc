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
                           std::filesystem::path folder, std::string prefix)
    : context_(context),
      budget_(std::move(budget)),
      folder_(std::move(folder)),
      prefix_(std::move(prefix)) {}

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
  throw_error(ErrorCode::kResourceExhausted,
              "{} takes {}, and the objects of a host may take {} of memory (cluster.objects), of "
              "which {} are in use, {} of them by {}; destroy Mapped views and OwnedObjects, or "
              "raise cluster.objects{}{}",
              describe(object), format_bytes(object.bytes), format_bytes(budget_->limit()),
              format_bytes(budget_->used()), format_bytes(budget_->used_here()),
              context_.system().self().name,
              disk.empty() ? "" : "; the disk has no room either: ", disk);
}

std::shared_ptr<ObjectCopy> ObjectCopies::least_recently_used() const {
  std::shared_ptr<ObjectCopy> oldest;
  for (const auto& [id, copy] : copies_)
    if (copy->complete && copy->memory && !copy->busy && !copy->in_use() &&
        (!oldest || copy->last_use < oldest->last_use))
      oldest = copy;
  return oldest;
}

actors::task<bool> ObjectCopies::make_room(const ObjectDescription& object) {
  if (object.bytes > budget_->limit()) throw_no_room(object, "");
  while (!budget_->reserve(object.bytes)) {
    const auto oldest = least_recently_used();
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
  const auto file = std::make_shared<std::shared_ptr<const SpilledObject>>();
  auto memory = copy->memory;
  std::optional<Error> failure;
  copy->busy = true;
  ++spilling_;
  try {
    auto running =
        work_.run(context_, "weft-spill", [file, memory, path = next_path(copy->object)]() mutable {
          *file = std::make_shared<SpilledObject>(path, memory->bytes());
          memory.reset();  // before the handler looks for room
        });
    co_await running;
  } catch (const Error& error) {
    failure = error;
  }
  copy->busy = false;
  --spilling_;
  if (!failure && !copy->in_use()) {
    copy->spilled = *file;
    memory.reset();
    copy->memory.reset();
  }
  copy->changes.notify();
  sweep();
  if (failure) throw Error(*failure);
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

actors::task<void> ObjectCopies::allocate(std::shared_ptr<ObjectCopy> copy) {
  auto making = make_room(copy->object);
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
  const auto memory = std::make_shared<std::shared_ptr<ObjectMemory>>();
  std::optional<Error> failure;
  try {
    auto making = make_room(copy->object);
    const bool has_room = co_await making;
    if (!has_room) throw_no_room(copy->object, "");
    auto running = work_.run(context_, "weft-get",
                             [this, memory, file = copy->spilled, object = copy->object] {
                               *memory = new_memory(object);
                               file->read((*memory)->writable());
                               (*memory)->seal();
                             });
    co_await running;
    copy->memory = std::move(*memory);
    copy->spilled.reset();
  } catch (const Error& error) {
    failure = error;
  }
  copy->busy = false;
  copy->changes.notify();
  if (failure) throw Error(*failure);
}

}  // namespace weft::mesh
