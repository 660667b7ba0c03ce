#include "mesh/objects/object_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/memory.h"
#include "core/base/private_file.h"
#include "mesh/objects/memory_platform.h"
#include "mesh/objects/patient_call.h"

namespace weft::mesh {
namespace {

constexpr auto kStatusWithin = std::chrono::seconds(5);
/// Share of the available memory that objects may take by default.
constexpr std::uint64_t kDefaultShare = 4;

std::string host_of(const actors::System& system) {
  const std::string& host = system.options().memory_host;
  return host.empty() ? fmt::format("process {:016x}", system.self().id.value()) : host;
}

/// Returns the folder for objects on disk, and makes it.
std::filesystem::path make_folder(const actors::System& system) {
  if (const std::filesystem::path& folder = system.options().object_folder; !folder.empty()) {
    try {
      create_private_folder(folder);
      return folder;
    } catch (const Error& error) {
      // The folder of the run may be that of another machine.
      system.options().log.info("objects beyond the memory go to another folder: {}",
                                error.message());
    }
  }
  std::filesystem::path folder = private_temporary_folder(std::filesystem::temp_directory_path(),
                                                          "there is no folder for objects") /
                                 "objects";
  create_private_folder(folder);
  return folder;
}

std::uint64_t default_limit() {
  if (MemoryPlatform* const platform = MemoryPlatform::simulated()) return platform->available();
  return available_shared_memory().value_or(0) / kDefaultShare;
}

std::shared_ptr<HostBudget> make_budget(const actors::System& system,
                                        const std::filesystem::path& folder) {
  const actors::SystemOptions& options = system.options();
  const std::uint64_t limit = options.object_memory != 0 ? options.object_memory : default_limit();
  if (options.memory_host.empty()) return std::make_shared<HostBudget>("", limit);
  return std::make_shared<HostBudget>(
      folder / fmt::format("{:016x}.budget", fingerprint_of(options.memory_host)), limit,
      options.object_memory == 0);
}

/// Returns true if this process has stopped waiting for an answer, which may still come.
bool has_given_up(const Error& error) {
  return error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kDeadlineExceeded;
}

/// Returns whether another process may do what this one could not.
bool is_loss(const Error& error) {
  return error.code() == ErrorCode::kPeerDied || error.code() == ErrorCode::kUnavailable;
}

}  // namespace

ObjectStore::ObjectStore(actors::Context& context, LocalObjects& local)
    : context_(context),
      local_(local),
      host_(host_of(context.system())),
      notices_(context.poster(),
               [this](const actors::ProcessRef& process, const std::vector<Notice>& notices) {
                 return store_of(process)
                     .within(actors::kNoDeadline)
                     .call<&ObjectStore::notify>(notices);
               }),
      folder_(make_folder(context.system())),
      budget_(make_budget(context.system(), folder_)),
      copies_(std::make_unique<ObjectCopies>(
          context, budget_, folder_, fmt::format("{:016x}", context.system().self().id.value()),
          [this](const ObjectCopy& copy) { report(copy.object, copy.attempt, false); })),
      transfer_(context.log()) {
  context.system().watch_lost_peers(
      [this, poster = context.poster()](const actors::ProcessRef& process, const Error& why) {
        poster.post([this, process, why] { process_lost(process, why); });
      });
}

actors::ActorRef<ObjectStore> ObjectStore::store_of(const actors::ProcessRef& process) const {
  return context_.system().named<ObjectStore>(process, actors::kObjectStoreName);
}

std::shared_ptr<ObjectRequest> ObjectStore::take(std::uint64_t ticket) const {
  if (context_.caller().id != context_.system().self().id)
    throw_error(ErrorCode::kInvalidArgument, "{} may not use the object store of {}",
                context_.caller().name, context_.system().self().name);
  return local_.take(ticket);
}

actors::task<void> ObjectStore::put(std::uint64_t ticket) {
  const auto request = take(ticket);
  ObjectDescription object = request->object();
  object.owner = context_.system().self();
  object.id = {object.owner.id, ++next_number_};
  if (request->copies < 1 || request->copies > 2)
    throw_error(ErrorCode::kInvalidArgument, "an object can have 1 or 2 copies, not {}",
                request->copies);
  const auto copy = std::make_shared<ObjectCopy>(object);
  auto filled = copies_->fill(copy, request->source, request->source_owner);
  co_await filled;
  copies_->insert(copy);
  directory_.add(object, object.owner, host_);
  std::optional<Error> failure;
  if (request->copies == 2) {
    try {
      auto copied = copy_elsewhere(object);
      object.backup = co_await copied;
    } catch (const Error& error) {
      failure = error;
    }
  }
  // Drops the object if nobody takes it.
  auto ownership = std::make_shared<const ObjectOwnership>(local_.weak_from_this(), object);
  if (failure) throw Error(*failure);
  request->complete(std::move(ownership));
}

actors::task<actors::ProcessRef> ObjectStore::copy_elsewhere(ObjectDescription object) {
  std::vector<actors::Future<StoreStatus>> asked;
  for (const actors::ProcessRef& peer : context_.system().peers())
    asked.push_back(store_of(peer).within(kStatusWithin).call<&ObjectStore::status>());
  std::vector<StoreStatus> stores;
  for (auto& each : asked) {
    try {
      stores.push_back(co_await each);
    } catch (const Error&) {
      // This process has no store, or has ended.
    }
  }
  std::stable_partition(stores.begin(), stores.end(),
                        [this](const StoreStatus& each) { return each.host != host_; });
  std::string problem = "no connected process has an object store";
  for (const StoreStatus& each : stores) {
    object.backup = each.process;
    std::optional<Error> failure;
    auto kept = store_of(each.process).within(actors::kNoDeadline).call<&ObjectStore::keep>(object);
    try {
      co_await kept;
    } catch (const Error& error) {
      failure = error;
    }
    if (!failure) {
      directory_.add_copy(object.id, each.process, each.host);
      co_return each.process;
    }
    // The process may have the copy nevertheless, and would keep it.
    kept.cancel();
    tell(each.process, Notice::Kind::kDropped, object.id);
    if (context_.stop_token().stop_requested()) throw Error(*failure);
    problem = failure->message();
  }
  throw_error(ErrorCode::kUnavailable,
              "{} gets no second copy: {}; make a mesh::Objects in another process first, or put "
              "it with one copy",
              describe(object), problem);
}

actors::task<void> ObjectStore::get(std::uint64_t ticket) {
  const auto request = take(ticket);
  auto opened = open(request->object());
  auto mapping = co_await opened;
  request->complete(std::move(mapping));
}

actors::task<std::shared_ptr<const ObjectMapping>> ObjectStore::open(ObjectDescription object) {
  std::vector<actors::ProcessId> failed;
  while (true) {
    if (const auto copy = copies_->find(object.id); copy && copy->complete && !copy->dropped) {
      check_object_type(copy->object, object.type);
      auto mapped = map_copy(copy);
      co_return co_await mapped;
    }
    if (const auto known = foreign_.find(object.id); known != foreign_.end()) {
      if (auto mapping = known->second.mapping.lock()) {
        check_object_type(known->second.object, object.type);
        co_return mapping;
      }
    }
    if (const auto coming = arriving_.find(object.id); coming != arriving_.end()) {
      const auto copy = copy_of(*coming->second);
      co_await copy->changes.next(context_);
      continue;
    }
    if (const auto other = opening_.find(object.id); other != opening_.end()) {
      const auto search = other->second;
      co_await search->changes.next(context_);
      continue;
    }
    const Opening opening(opening_, object.id);
    auto opened = open_once(object, failed);
    if (auto mapping = co_await opened) co_return mapping;
  }
}

actors::task<std::shared_ptr<const ObjectMapping>> ObjectStore::open_once(
    ObjectDescription object, std::vector<actors::ProcessId>& failed) {
  const std::uint64_t attempt = ++last_attempt_;
  const auto search = opening_.at(object.id);
  search->asks_directory = true;
  LocateReply reply;
  try {
    auto asked = ask_directory({object, context_.system().self(), host_, failed, attempt});
    reply = co_await asked;
  } catch (const Error& error) {
    // The answer may be under way.
    if (has_given_up(error)) report(object, attempt, false);
    throw;
  }
  search->asks_directory = false;
  const auto here = copies_->find(object.id);
  if (arriving_.contains(object.id) || (here && here->complete && !here->dropped)) {
    // A broadcast has begun meanwhile.
    if (reply.action == LocateReply::Action::kPull) report(object, attempt, false);
    co_return nullptr;
  }
  if (reply.action == LocateReply::Action::kMap) {
    if (reply.holder.id == context_.system().self().id) {
      failed.push_back(reply.holder.id);  // the copy was here
      co_return nullptr;
    }
    try {
      auto mapped = map_elsewhere(object, reply.holder);
      co_return co_await mapped;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound && !is_loss(error)) throw;
    }
    failed.push_back(reply.holder.id);
    co_return nullptr;
  }
  const auto copy = std::make_shared<ObjectCopy>(object);
  copy->attempt = attempt;
  const CopyUse use(*copies_, copy);
  copies_->insert(copy);
  std::optional<Error> failure;
  bool has_it = false;
  try {
    auto allocated = copies_->allocate(copy);
    co_await allocated;
    auto pulled = pull(copy, reply.holder, failed, attempt);
    has_it = co_await pulled;
  } catch (const Error& error) {
    failure = error;
  }
  report(object, attempt, has_it);
  if (has_it) {
    auto mapped = map_copy(copy);
    co_return co_await mapped;
  }
  abandon(*copy, failure ? *failure
                         : Error(ErrorCode::kUnavailable, "another process of the host has it"));
  if (failure) throw Error(*failure);
  co_return nullptr;
}

void ObjectStore::report(const ObjectDescription& object, std::uint64_t attempt,
                         bool has_received) {
  const auto kind = has_received ? Notice::Kind::kReceived : Notice::Kind::kNotReceived;
  tell(object.owner, kind, object.id, attempt);
  if (object.backup.id != actors::ProcessId()) tell(object.backup, kind, object.id, attempt);
}

void ObjectStore::tell(const actors::ProcessRef& process, Notice::Kind kind, const ObjectId& id,
                       std::uint64_t number) {
  const Notice notice{kind, id, number};
  const actors::ProcessId self = context_.system().self().id;
  if (process.id == self) take_notice(notice, self);
  else notices_.add(process, notice);
}

actors::task<LocateReply> ObjectStore::ask_directory(LocateRequest request) {
  const actors::ProcessId self = context_.system().self().id;
  if (request.object.owner.id == self) {
    auto here = locate_here(request);
    co_return co_await here;
  }
  std::optional<Error> failure;
  try {
    auto owner = patient_call<LocateReply>(context_, [this, request] {
      return store_of(request.object.owner)
          .within(actors::kNoDeadline)
          .call<&ObjectStore::locate>(request);
    });
    co_return co_await owner;
  } catch (const Error& error) {
    failure = error;
  }
  if (!is_loss(*failure)) throw Error(*failure);
  const actors::ProcessRef& backup = request.object.backup;
  if (backup.id == actors::ProcessId() || backup.id == self) {
    if (!failure->node().empty()) throw Error(*failure);  // from the owner
    throw_error(failure->code(),
                "{} cannot be read, as its owner does not answer: {}; put it again, or with "
                "copies = 2",
                describe(request.object), failure->message());
  }
  try {
    auto other = patient_call<LocateReply>(context_, [this, request] {
      return store_of(request.object.backup)
          .within(actors::kNoDeadline)
          .call<&ObjectStore::locate>(request);
    });
    co_return co_await other;
  } catch (const Error& error) {
    if (!is_loss(error)) throw;
    throw_error(error.code(),
                "{} cannot be read, as neither its owner nor {}, which has the second copy, "
                "answers: {}; {}; put it again",
                describe(request.object), backup.name, failure->message(), error.message());
  }
}

actors::task<LocateReply> ObjectStore::locate(LocateRequest request) {
  const ObjectId id = request.object.id;
  // The reader has found that the owner does not answer.
  if (const auto copy = copies_->find(id); copy && copy->backup && !directory_.contains(id))
    directory_.add(copy->object, context_.system().self(), host_);
  auto here = locate_here(std::move(request));
  co_return co_await here;
}

actors::task<LocateReply> ObjectStore::locate_here(LocateRequest request) {
  while (true) {
    check_caller(request.reader);
    if (const auto reply = directory_.locate(request)) co_return *reply;
    co_await directory_changes_.next(context_);
  }
}

actors::task<std::shared_ptr<const ObjectMapping>> ObjectStore::map_copy(CopyPtr copy) {
  const CopyUse use(*copies_, copy);
  copy->unread = false;
  auto loaded = copies_->load(copy);
  co_await loaded;
  if (auto mapping = copy->mapping.lock()) co_return mapping;
  auto mapping = std::make_shared<const ObjectMapping>(
      copy->memory, [local = local_.weak_from_this(), id = copy->object.id] {
        if (const auto here = local.lock()) here->unmapped(id, {}, 0);
      });
  copy->mapping = mapping;
  co_return mapping;
}

actors::task<std::shared_ptr<const ObjectMapping>> ObjectStore::map_elsewhere(
    ObjectDescription object, actors::ProcessRef holder) {
  const std::uint64_t number = ++last_mapping_;
  auto mapped = patient_call<MemoryLocation>(context_, [this, holder, number, id = object.id] {
    return store_of(holder).within(actors::kNoDeadline).call<&ObjectStore::map>(id, number);
  });
  MemoryLocation location;
  try {
    location = co_await mapped;
  } catch (const Error& error) {
    // The answer may be under way.
    if (has_given_up(error)) tell(holder, Notice::Kind::kReaderDone, object.id, number);
    throw;
  }
  std::shared_ptr<const ObjectMapping> mapping;
  try {
    mapping = std::make_shared<const ObjectMapping>(
        object.id, location, [local = local_.weak_from_this(), id = object.id, holder, number] {
          if (const auto here = local.lock()) here->unmapped(id, holder, number);
        });
  } catch (const Error&) {
    tell(holder, Notice::Kind::kReaderDone, object.id, number);
    throw;
  }
  foreign_[object.id] = {object, mapping};
  co_return mapping;
}

actors::task<MemoryLocation> ObjectStore::map(ObjectId id, std::uint64_t mapping) {
  const auto copy = copies_->find(id);
  if (!copy || !copy->complete || copy->dropped)
    throw_error(ErrorCode::kNotFound, "{} has no copy of object {} any more",
                context_.system().self().name, id.number);
  const actors::ProcessRef reader = context_.caller();
  const CopyUse use(*copies_, copy);
  copy->unread = false;
  auto loaded = copies_->load(copy);
  co_await loaded;
  check_caller(reader);
  copy->readers[reader.id].insert(mapping);
  co_return copy->memory->location();
}

void ObjectStore::reader_done(const ObjectId& id, actors::ProcessId process,
                              std::uint64_t mapping) {
  const auto copy = copies_->find(id);
  if (!copy) return;
  const auto reader = copy->readers.find(process);
  if (reader == copy->readers.end()) return;
  reader->second.erase(mapping);
  if (reader->second.empty()) copy->readers.erase(reader);
  copies_->sweep();
}

void ObjectStore::unmapped(const ObjectId& id, const actors::ProcessRef& holder,
                           std::uint64_t mapping) {
  if (holder.id == actors::ProcessId()) return copies_->sweep();
  if (const auto known = foreign_.find(id);
      known != foreign_.end() && known->second.mapping.expired())
    foreign_.erase(known);
  tell(holder, Notice::Kind::kReaderDone, id, mapping);
}

void ObjectStore::check_caller(const actors::ProcessRef& caller) const {
  if (context_.stop_token().stop_requested())
    throw_error(ErrorCode::kCancelled, "{} does not wait any more", caller.name);
  if (!is_connected(caller))
    throw_error(ErrorCode::kPeerDied, "{} has ended while its call was handled", caller.name);
}

bool ObjectStore::is_connected(const actors::ProcessRef& process) const {
  const auto peers = context_.system().peers();
  return process.id == context_.system().self().id ||
         std::ranges::any_of(peers, [&](const auto& peer) { return peer.id == process.id; });
}

void ObjectStore::notify(const std::vector<Notice>& notices) {
  const actors::ProcessId sender = context_.caller().id;
  for (const Notice& each : notices) take_notice(each, sender);
}

void ObjectStore::take_notice(const Notice& notice, actors::ProcessId sender) {
  switch (notice.kind) {
    case Notice::Kind::kReceived: directory_.received(notice.object, sender, notice.number); break;
    case Notice::Kind::kNotReceived:
      directory_.not_received(notice.object, sender, notice.number);
      break;
    case Notice::Kind::kReaderDone: return reader_done(notice.object, sender, notice.number);
    case Notice::Kind::kDropped: return drop(notice.object);
    case Notice::Kind::kBroadcastComplete: return end_broadcast(notice.object, notice.number, true);
    case Notice::Kind::kBroadcastAbandoned:
      return end_broadcast(notice.object, notice.number, false);
  }
  directory_changes_.notify();
  finish_drops();
}

void ObjectStore::release(const ObjectId& id) {
  directory_.drop(id);
  finish_drops();
}

void ObjectStore::drop(const ObjectId& id) {
  copies_->drop(id);
  // A backup may have given others copies.
  directory_.drop(id);
  finish_drops();
}

actors::task<void> ObjectStore::wait_until_nobody_opens(ObjectId id, bool also_asks) {
  while (true) {
    if (const auto coming = arriving_.find(id); coming != arriving_.end()) {
      const auto copy = copy_of(*coming->second);
      co_await copy->changes.next(context_);
      continue;
    }
    const auto other = opening_.find(id);
    if (other == opening_.end() || (other->second->asks_directory && !also_asks)) co_return;
    const auto search = other->second;
    co_await search->changes.next(context_);
  }
}

actors::task<void> ObjectStore::keep(ObjectDescription object) {
  auto alone = wait_until_nobody_opens(object.id, true);
  co_await alone;
  const Opening opening(opening_, object.id);
  const auto copy = std::make_shared<ObjectCopy>(object);
  const CopyUse use(*copies_, copy);
  copies_->insert(copy);
  std::optional<Error> failure;
  try {
    auto allocated = copies_->allocate(copy);
    co_await allocated;
    auto connected = connect_to(object.owner);
    co_await connected;
    auto pulled = pull_from(copy, object.owner);
    co_await pulled;
  } catch (const Error& error) {
    failure = error;
  }
  if (failure) {
    abandon(*copy, *failure);
    throw Error(*failure);
  }
  finish(*copy);
  copy->backup = true;
}

void ObjectStore::discard(const ObjectDescription& object) {
  const auto copy = copies_->find(object.id);
  if (!copy || !copy->backup || copy->dropped)
    throw_error(ErrorCode::kNotFound, "{} has no second copy of {} any more",
                context_.system().self().name, describe(object));
  if (is_connected(object.owner))
    throw_error(ErrorCode::kFailedPrecondition,
                "{} cannot be discarded, as its owner lives: destroy its OwnedObject",
                describe(object));
  drop(object.id);
}

void ObjectStore::finish(ObjectCopy& copy) {
  copy.memory->seal();
  copy.complete = true;
  copy.changes.notify();
}

void ObjectStore::abandon(ObjectCopy& copy, const Error& why) {
  copy.failure = why;
  copy.dropped = true;  // forgotten after its last use
  copy.changes.notify();
}

void ObjectStore::finish_drops() {
  const actors::ProcessId self = context_.system().self().id;
  for (const ObjectId& id : directory_.dropped()) {
    const auto holders = directory_.take_dropped(id);
    if (!holders) continue;
    for (const actors::ProcessRef& holder : *holders) {
      if (holder.id == self) copies_->drop(id);
      else tell(holder, Notice::Kind::kDropped, id);
    }
  }
}

void ObjectStore::process_lost(const actors::ProcessRef& process, const Error& why) {
  transfer_.process_lost(process.id, why);
  directory_.process_lost(process.id);
  std::vector<ObjectId> orphans;
  for (const auto& [id, copy] : copies_->all()) {
    copy->readers.erase(process.id);
    if (id.owner == process.id && !copy->backup) orphans.push_back(id);
  }
  for (const ObjectId& id : orphans) {
    end_broadcast(id, std::nullopt, false);
    copies_->drop(id);
  }
  copies_->sweep();
  directory_changes_.notify();
  finish_drops();
}

StoreStatus ObjectStore::status() const {
  StoreStatus status;
  status.process = context_.system().self();
  status.host = host_;
  status.objects = directory_.size();
  status.bytes_received = bytes_received_;
  status.bytes_sent = bytes_sent_;
  status.broadcasts = broadcasts_;
  status.host_bytes = budget_->used();
  status.host_limit = budget_->limit();
  for (const auto& [id, copy] : copies_->all()) {
    ++status.copies;
    (copy->memory ? status.bytes_in_memory : status.bytes_on_disk) += copy->object.bytes;
  }
  return status;
}

}  // namespace weft::mesh
