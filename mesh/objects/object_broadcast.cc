// How an object store copies an object to several hosts at once: one planned broadcast, and repairs
// after deaths.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "actors/system/mesh_arguments.h"
#include "mesh/objects/object_store.h"
#include "mesh/objects/transfer_end.h"
#include "transfer/reshard/plan.h"

namespace weft::mesh {
namespace {

constexpr auto kAnswerWithin = std::chrono::seconds(5);
/// Rate of all links in plans, in bytes per second. Plans for equal links do not depend on it.
constexpr double kLinkRate = 125e6;

/// Returns the plan's task: the object, from the owner to all members.
transfer::ReshardTask task_of(std::uint64_t bytes, std::size_t members) {
  const Shape shape = {static_cast<std::int64_t>(bytes)};
  const Region all = Region::whole(shape);
  transfer::ShardMap destination{shape, {}};
  for (std::uint32_t i = 1; i <= members; ++i)
    destination.shards.push_back({transfer::DeviceId(i), all});
  return {{DType::kU8, shape}, {shape, {{transfer::DeviceId(0), all}}}, destination};
}

/// Announced broadcasts that a process runs at a time. Readers of further objects pull.
constexpr std::size_t kMostAnnounced = 4;
/// Bytes from which an object is brought to several hosts by a broadcast without a request. Below,
/// the calls of a broadcast take longer than the bytes.
constexpr std::uint64_t kSmallestAnnounced = 1024 * 1024;

[[noreturn]] void throw_dropped(const ObjectDescription& object) {
  throw_error(ErrorCode::kNotFound,
              "{} does not exist any more: its owner has dropped it; keep its OwnedObject until "
              "all readers have it",
              describe(object));
}

/// Calls to several processes. Cancels those that have not ended at its end, as a Future that is
/// dropped does not cancel its call.
template <typename T>
struct CallGroup {
  CallGroup() = default;
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;
  ~CallGroup() {
    for (auto& each : calls) each.cancel();
  }
  std::vector<actors::Future<T>> calls;
};

}  // namespace

/// Process that receives an object in a broadcast, for its host. Device i + 1 of the plans, where i
/// is its index.
struct ObjectStore::Member {
  actors::ProcessRef process;
  std::string host;
  DataPlaneHello hello = {};
  bool lives = true;    ///< False if it takes no part any more.
  bool has_it = false;  ///< True if it needs no copy.
};

/// Object that comes by a broadcast.
struct ObjectStore::Arriving {
  Arriving(ObjectCopies& copies, CopyPtr arriving)
      : use(copies, arriving), copy(std::move(arriving)) {}
  const CopyUse use;
  const CopyPtr copy;
};

ObjectStore::CopyPtr ObjectStore::copy_of(const Arriving& arriving) { return arriving.copy; }

/// Lets readers in some processes wait while a broadcast to them is arranged.
class ObjectStore::Expecting final {
 public:
  Expecting(ObjectStore& store, const ObjectId& id,
            const std::vector<actors::ProcessRef>& processes)
      : store_(store), id_(id), processes_(processes) {
    store.directory_.expect(id, processes);
  }
  ~Expecting() {
    store_.directory_.expect_ends(id_, processes_);
    store_.directory_changes_.notify();
  }
  Expecting(const Expecting&) = delete;
  Expecting& operator=(const Expecting&) = delete;

 private:
  ObjectStore& store_;
  const ObjectId id_;
  const std::vector<actors::ProcessRef> processes_;
};

void add_to_arguments(const ObjectDescription& object, EncodeContext& context) {
  auto* const arguments = dynamic_cast<actors::MeshArguments*>(&context);
  if (arguments == nullptr || object.bytes < kSmallestAnnounced) return;
  arguments->add(
      {object.id.owner.value(), object.id.number},
      [object](actors::System& system, const std::vector<actors::ProcessRef>& receivers) {
        // If it does not arrive, the readers pull.
        static_cast<void>(system.named<ObjectStore>(object.owner, actors::kObjectStoreName)
                              .tell<&ObjectStore::announce>(object, receivers));
      });
}

actors::task<std::vector<ObjectStore::Member>> ObjectStore::find_members(
    ObjectDescription object, std::vector<actors::ProcessRef> processes) {
  std::vector<actors::Future<StoreStatus>> asked;
  for (const actors::ProcessRef& process : processes)
    asked.push_back(store_of(process).within(kAnswerWithin).call<&ObjectStore::status>());
  std::vector<Member> members;
  std::set<std::string> hosts;
  bool any = false;
  std::optional<Error> loss;
  for (auto& each : asked) {
    try {
      const StoreStatus status = co_await each;
      any = true;
      if (!directory_.has_copy(object.id, status.host) && hosts.insert(status.host).second)
        members.push_back({status.process, status.host});
    } catch (const Error& error) {
      // Otherwise this process has no store, or has ended.
      if (context_.stop_token().stop_requested()) throw;
      if (error.code() != ErrorCode::kNotFound) loss = error;
    }
  }
  if (!any && loss)
    throw_error(ErrorCode::kUnavailable, "{} cannot be shared: no process of the mesh answers: {}",
                describe(object), loss->message());
  if (!any && !processes.empty())
    throw_error(ErrorCode::kFailedPrecondition,
                "{} cannot be shared: no actor of the mesh has a mesh::Objects; make one in its "
                "constructor",
                describe(object));
  co_return members;
}

actors::task<void> ObjectStore::share(ObjectDescription object,
                                      std::vector<actors::ProcessRef> processes) {
  auto sharing = share_with(std::move(object), std::move(processes), Claim::kNeeded);
  co_await sharing;
}

actors::task<void> ObjectStore::announce(ObjectDescription object,
                                         std::vector<actors::ProcessRef> processes) {
  processes = directory_.add_audience(object.id, processes);
  if (processes.size() < 2) co_return;
  while (announced_broadcasts_ == kMostAnnounced)
    co_await announced_broadcast_ended_.next(context_);
  ++announced_broadcasts_;
  try {
    auto sharing = share_with(object, std::move(processes), Claim::kAhead);
    co_await sharing;
  } catch (const Error& error) {
    context_.log().info("{}: {} is not sent ahead to the readers of a call, so they pull it: {}",
                        context_.name(), describe(object), error.message());
  }
  --announced_broadcasts_;
  announced_broadcast_ended_.notify();
}

actors::task<void> ObjectStore::share_with(ObjectDescription object,
                                           std::vector<actors::ProcessRef> processes, Claim claim) {
  const auto copy = copies_->find(object.id);
  if (!copy || copy->dropped || !directory_.has_readers(object.id)) throw_dropped(object);
  const CopyUse use(*copies_, copy);
  std::optional<Expecting> expecting;
  expecting.emplace(*this, object.id, processes);
  auto loaded = copies_->load(copy);
  co_await loaded;
  auto found = find_members(object, std::move(processes));
  std::vector<Member> members = co_await found;
  if (!directory_.has_readers(object.id)) throw_dropped(object);
  // Other handlers have run meanwhile.
  std::erase_if(members,
                [&](const Member& each) { return directory_.has_copy(object.id, each.host); });
  // A plan for one host is no better than a pull.
  if (claim == Claim::kAhead && members.size() < 2) members.clear();
  const std::uint64_t number = kBroadcastFlag | ++last_broadcast_;
  for (const Member& each : members)
    directory_.add_receiver(object.id, each.process, each.host, number);
  expecting.reset();
  std::optional<Error> failure;
  try {
    auto done = broadcast_to(copy, members, number, claim);
    co_await done;
  } catch (const Error& error) {
    failure = error;
  }
  // No await from here on: this handler may be cancelled already.
  for (const Member& each : members) {
    if (each.has_it) directory_.received(object.id, each.process.id, number);
    if (!each.lives) continue;
    const bool complete = !failure && is_connected(each.process) && directory_.contains(object.id);
    tell(each.process,
         complete ? Notice::Kind::kBroadcastComplete : Notice::Kind::kBroadcastAbandoned, object.id,
         number);
    if (complete) directory_.received(object.id, each.process.id, number);
    else directory_.not_received(object.id, each.process.id, number);
  }
  directory_changes_.notify();
  finish_drops();
  if (failure) throw Error(*failure);
}

actors::task<void> ObjectStore::broadcast_to(CopyPtr copy, std::vector<Member>& members,
                                             std::uint64_t number, Claim claim) {
  if (members.empty()) co_return;
  open_data_plane();
  CallGroup<BroadcastReady> beginning;
  for (const Member& each : members)
    beginning.calls.push_back(store_of(each.process)
                                  .within(actors::kNoDeadline)
                                  .call<&ObjectStore::begin_broadcast>(BroadcastStart{
                                      copy->object, number, claim == Claim::kAhead}));
  std::vector<transfer::DeviceId> dead;
  for (std::size_t i = 0; i < members.size(); ++i) {
    try {
      auto& begun = beginning.calls[i];
      const BroadcastReady ready = co_await begun;
      if (ready.has_copy) {
        members[i].has_it = true;
        members[i].lives = false;
        dead.push_back(transfer::DeviceId(static_cast<std::uint32_t>(i + 1)));
        continue;
      }
      members[i].hello = ready.hello;
      transfer_.connect(members[i].process.id, members[i].hello);
    } catch (const Error& error) {
      if (context_.stop_token().stop_requested()) throw;
      leave_out(members[i], copy->object, number, error);
      dead.push_back(transfer::DeviceId(static_cast<std::uint32_t>(i + 1)));
    }
  }
  if (copy->object.bytes == 0) co_return;
  ++broadcasts_;
  const auto topology = transfer::Topology::dense(std::vector<int>(members.size() + 1, 1));
  const auto network = transfer::Network::uniform(members.size() + 1, kLinkRate);
  const transfer::ReshardPlan whole =
      transfer::plan_reshard(task_of(copy->object.bytes, members.size()), topology, network,
                             transfer::ReshardAlgorithm::kWeft);
  transfer::Repair repair(whole);
  transfer::ReshardPlan plan = dead.empty() ? whole : repair.plan(dead, network);
  // Each round completes, or loses a member, or fails for another reason, at most so often.
  for (std::size_t round = 0; round < members.size() + 3 && !plan.flows.empty(); ++round) {
    auto executed = execute_plan(copy, members, plan, number);
    const auto landed = co_await executed;
    dead.clear();
    for (std::uint32_t i = 0; i < members.size(); ++i)
      if (!members[i].lives) dead.push_back(transfer::DeviceId(i + 1));
    repair.add(plan, landed);
    plan = repair.plan(dead, network);
  }
  if (!plan.flows.empty())
    throw_error(ErrorCode::kUnavailable, "{} could not be sent to all hosts in {} attempts",
                describe(copy->object), members.size() + 3);
}

actors::task<std::vector<transfer::LandedReport>> ObjectStore::execute_plan(
    const CopyPtr& copy, std::vector<Member>& members, const transfer::ReshardPlan& plan,
    std::uint64_t number) {
  // The planned devices are numbered from 0; the wire knows them by other ids.
  const DataPlaneHello own = open_data_plane();
  const auto process_of = [&](transfer::DeviceId device) {
    return device.value() == 0 ? BroadcastPart::Peer{context_.system().self().id, own}
                               : BroadcastPart::Peer{members[device.value() - 1].process.id,
                                                     members[device.value() - 1].hello};
  };
  const transfer::TransferId id = transfer_.next_id();
  const auto part_of = [&](std::uint32_t device) {
    BroadcastPart made{copy->object.id, plan.device_part(transfer::DeviceId(device)), id};
    for (const transfer::DeviceId peer : made.part.peers()) made.peers.push_back(process_of(peer));
    made.part.device = process_of(made.part.device).hello.device;
    for (transfer::FlowRole& stream : made.part.streams) {
      if (stream.parent) stream.parent = process_of(*stream.parent).hello.device;
      for (transfer::DeviceId& child : stream.children) child = process_of(child).hello.device;
    }
    return made;
  };
  std::vector<std::size_t> indices;
  CallGroup<BroadcastReport> running;
  for (std::uint32_t i = 0; i < members.size(); ++i) {
    if (!members[i].lives) continue;
    indices.push_back(i);
    running.calls.push_back(store_of(members[i].process)
                                .within(actors::kNoDeadline)
                                .call<&ObjectStore::broadcast>(part_of(i + 1)));
  }
  auto here = take_part(part_of(0), copy->memory, false);
  const BroadcastReport sent = co_await here;
  std::vector<transfer::LandedReport> landed;
  // Without a problem, the chunks that have landed are not listed: all have.
  const auto all_chunks = [&](std::uint32_t device) {
    std::vector<transfer::LandedChunks> flows;
    for (const transfer::FlowRole& stream : plan.device_part(transfer::DeviceId(device)).streams) {
      if (!stream.parent) continue;
      flows.push_back(transfer::LandedChunks::none(stream.flow, stream.num_chunks()));
      for (std::uint32_t chunk = 0; chunk < stream.num_chunks(); ++chunk) flows.back().set(chunk);
    }
    return flows;
  };
  for (std::size_t at = 0; at < indices.size(); ++at) {
    const std::size_t i = indices[at];
    auto& report = running.calls[at];
    const auto device = static_cast<std::uint32_t>(i + 1);
    try {
      BroadcastReport ended = co_await report;
      landed.push_back({transfer::DeviceId(device),
                        ended.problem.empty() ? all_chunks(device) : std::move(ended.landed)});
    } catch (const Error& error) {
      if (context_.stop_token().stop_requested()) throw;
      leave_out(members[i], copy->object, number, error);
    }
  }
  co_return landed;
}

void ObjectStore::leave_out(Member& member, const ObjectDescription& object, std::uint64_t number,
                            const Error& why) {
  context_.log().info("{}: {} is left out of the broadcast of {}: {}", context_.name(),
                      member.process.name, describe(object), why.message());
  member.lives = false;
  // The readers there need not wait for the others.
  tell(member.process, Notice::Kind::kBroadcastAbandoned, object.id, number);
  directory_.not_received(object.id, member.process.id, number);
  directory_changes_.notify();
}

actors::task<BroadcastReady> ObjectStore::begin_broadcast(BroadcastStart start) {
  const ObjectDescription& object = start.object;
  const actors::ProcessRef owner = context_.caller();
  auto alone = wait_until_nobody_opens(object.id, false);
  co_await alone;
  // The end of the broadcast, or the loss of its owner, may have come before.
  check_caller(owner);
  if (const auto known = copies_->find(object.id); known && known->complete && !known->dropped)
    co_return BroadcastReady{true};
  const auto copy = std::make_shared<ObjectCopy>(object);
  copy->attempt = start.number;
  copy->unread = true;
  arriving_[object.id] = std::make_shared<Arriving>(*copies_, copy);
  copies_->insert(copy);
  std::optional<Error> failure;
  try {
    auto allocated = copies_->allocate(copy, start.ahead ? Claim::kAhead : Claim::kNeeded);
    co_await allocated;
  } catch (const Error& error) {
    failure = error;
  }
  if (failure) {
    end_broadcast(object.id, start.number, false);
    throw Error(*failure);
  }
  co_return BroadcastReady{false, open_data_plane()};
}

actors::task<BroadcastReport> ObjectStore::broadcast(BroadcastPart part) {
  const auto arriving = arriving_.find(part.object);
  if (arriving == arriving_.end() || !arriving->second->copy->memory)
    throw_error(ErrorCode::kNotFound, "{} does not expect object {}", context_.system().self().name,
                part.object.number);
  auto taken = take_part(std::move(part), arriving->second->copy->memory, true);
  co_return co_await taken;
}

actors::task<BroadcastReport> ObjectStore::take_part(BroadcastPart part,
                                                     std::shared_ptr<ObjectMemory> memory,
                                                     bool writes) {
  for (const BroadcastPart::Peer& peer : part.peers) transfer_.connect(peer.process, peer.hello);
  if (part.part.empty()) co_return BroadcastReport();
  const auto end = std::make_shared<TransferEnd>(context_.make_wakeup());
  const auto kept = std::make_shared<const transfer::DevicePart>(part.part);
  const auto landed = std::make_shared<std::vector<transfer::LandedChunks>>();
  transfer_.execute(*kept, part.transfer, memory->bytes(),
                    writes ? memory->writable() : std::span<std::byte>(),
                    [end, kept, landed, memory](const transfer::TransferReport& report) {
                      *landed = report.landed;
                      end->set(report.outcome);
                    });
  try {
    auto ended = end->wait();
    co_await ended;
  } catch (const Error& error) {
    transfer_.cancel(part.transfer, error);
    throw;
  }
  bytes_sent_ += end->outcome.ok() ? kept->bytes_sent() : 0;
  bytes_received_ += end->outcome.ok() ? kept->bytes_received() : 0;
  if (end->outcome.ok()) co_return BroadcastReport();
  co_return BroadcastReport{end->outcome.error().message(), *landed};
}

void ObjectStore::end_broadcast(const ObjectId& id, std::optional<std::uint64_t> number,
                                bool complete) {
  const auto known = arriving_.find(id);
  if (known == arriving_.end() || (number && known->second->copy->attempt != *number)) return;
  const auto ended = arriving_.extract(known);
  ObjectCopy& copy = *ended.mapped()->copy;
  if (complete && copy.memory) {
    copy.landed = copy.object.bytes;
    finish(copy);
  } else {
    abandon(copy, Error(ErrorCode::kUnavailable, "the broadcast of the object has failed"));
  }
}

}  // namespace weft::mesh
