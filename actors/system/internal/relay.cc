#include "actors/system/internal/relay.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "actors/message/message_frames.h"
#include "actors/system/system.h"
#include "core/base/units.h"

namespace weft::actors {

namespace {

/// Routes of processes, with the answers that they keep, from which on idle ones are dropped.
constexpr std::size_t kMinRoutes = 64;
/// Time in which an origin that lives learns that a relay, or the connection to it, is lost, and
/// takes its calls over.
constexpr Nanoseconds kTakenOverWithin = std::chrono::seconds(30);

void refuse(const Envelope& envelope, Error why) {
  if (envelope.call.id != 0)
    envelope.route->reply({envelope.call.id, std::move(why), ReplyState::kRefused}, true);
}

Error lost_reply() {
  return Error(ErrorCode::kPeerDied,
               "the call has run, and its reply was lost with the process that relayed it");
}

Error not_begun() { return Error(ErrorCode::kCancelled, "cancelled before it was started"); }

}  // namespace

void Relay::check(const ProcessRef& parent, const RelayRequest& request) const {
  if (!options_.relays_calls)
    throw_error(ErrorCode::kFailedPrecondition,
                "{} does not relay calls, as it is a head or an agent; call its actors directly",
                identity_.name());
  const PeerDescription self = identity_.introduction();
  if (request.header.run != self.run)
    throw_error(ErrorCode::kFailedPrecondition,
                "{} relays calls of its own run only, and {} belongs to another one",
                identity_.name(), request.header.origin.name);
  if (request.nodes.empty() || request.nodes.front().process.id != self.process.id)
    throw_error(ErrorCode::kInvalidArgument, "{} sent {} a tree of calls that is not for it",
                parent.name, identity_.name());
  check_ranks(parent, request);
  if (const auto same = find(parent.id, request.key); same && !same->finished())
    throw_error(ErrorCode::kInvalidArgument, "{} sent {} a tree of calls twice", parent.name,
                identity_.name());
  // A nested node would be delivered under the lock of this process's own route.
  if (request.header.origin.id == self.process.id ||
      std::any_of(request.nodes.begin() + 1, request.nodes.end(), [&](const RelayNode& node) {
        return node.process.id == self.process.id || node.process.id == parent.id;
      }))
    throw_error(ErrorCode::kInvalidArgument, "{} sent {} a tree of calls with a loop", parent.name,
                identity_.name());
  if (request.arguments.size() > request.header.bytes)
    throw_error(ErrorCode::kInvalidArgument, "{} sent {} more arguments than it said", parent.name,
                identity_.name());
  if (request.header.bytes > kMaxMessageBytes || *bytes_ + request.header.bytes > kMaxBytes)
    throw_error(ErrorCode::kResourceExhausted,
                "{} would have {} of arguments in unfinished trees of calls; the limit is {}",
                identity_.name(), format_bytes(*bytes_ + request.header.bytes),
                format_bytes(kMaxBytes));
}

void Relay::check_ranks(const ProcessRef& parent, const RelayRequest& request) const {
  const std::uint64_t num_ranks = request.header.num_ranks;
  const auto has_ranks = [&](const RelayNode& node) {
    return !node.calls.empty() && std::ranges::all_of(node.calls, [&](const RelayedCall& call) {
      return call.rank < num_ranks;
    });
  };
  // Each process has a rank at least, so positions of processes are below the number of ranks.
  if (request.first >= num_ranks || request.nodes.size() > num_ranks - request.first ||
      !std::ranges::all_of(request.nodes, has_ranks))
    throw_error(ErrorCode::kInvalidArgument,
                "{} sent {} a tree of calls whose ranks are not among its {} ranks", parent.name,
                identity_.name(), num_ranks);
}

void Relay::on_request(const std::shared_ptr<ReturnRoute>& route, std::uint64_t call_id,
                       RelayRequest request) {
  const ProcessRef parent = route->peer();
  check(parent, request);
  const auto tree = std::make_shared<RelayedTree>(
      calls_, RelayedTree::Parent{route, parent.id, call_id}, request, combine_of(request), bytes_,
      [this] { schedule(); });  // takes the first node
  add({parent.id, request.key}, tree);
  request.nodes.erase(request.nodes.begin());
  tree->set_branches(branches_.start(
      request.header, tree->deadline(), request.first + 1, std::move(request.nodes),
      request.arguments, [tree](RelayResults results) { tree->add(std::move(results)); }));
  const bool is_complete = request.arguments.size() == request.header.bytes;
  tree->set_arguments(std::move(request.arguments));
  if (is_complete) deliver_own(tree);
}

void Relay::schedule() {
  if (!scheduled_.exchange(true)) timers_.run_after(kBatchFor, [this] { send_up(); });
}

void Relay::send_up() {
  scheduled_ = false;
  for (const auto& [key, tree] : trees_) tree->send_up();
}

void Relay::add(const TreeKey& key, const std::shared_ptr<RelayedTree>& tree) {
  if (trees_.size() >= purge_at_) {
    std::erase_if(trees_, [](const auto& entry) { return entry.second->finished(); });
    purge_at_ = std::max<std::size_t>(16, 2 * trees_.size());
  }
  trees_.insert_or_assign(key, tree);
}

std::shared_ptr<RelayedTree> Relay::find(ProcessId parent, std::uint64_t key) const {
  const auto found = trees_.find({parent, key});
  return found == trees_.end() ? nullptr : found->second;
}

void Relay::on_chunk(ProcessId parent, const RelayChunk& chunk) {
  const auto tree = find(parent, chunk.key);
  if (!tree || tree->delivered) return;  // refused
  if (tree->add_chunk(chunk.bytes)) deliver_own(tree);
}

CombineResults Relay::combine_of(const RelayRequest& request) const {
  const RelayHeader& header = request.header;
  // Listed functions are user code, which does not run on the I/O thread.
  if (!header.reduce || *header.reduce == ReduceOperation::kListed) return nullptr;
  const auto host = actors_.find(request.nodes.front().calls.front().actor);
  if (!host) return nullptr;
  const Provider& provider = host->options().provider;
  if (provider.interface.fingerprint != header.fingerprint ||
      header.method >= provider.methods.size())
    return nullptr;
  return provider.methods[header.method].combine;
}

std::shared_ptr<RelayedRoute> Relay::route_of(const ProcessRef& origin) {
  const auto found = routes_.find(origin.id);
  if (found != routes_.end()) return found->second;
  if (routes_.size() >= purge_routes_at_) {
    std::erase_if(routes_, [](const auto& entry) { return entry.second.use_count() == 1; });
    purge_routes_at_ = std::max(kMinRoutes, 2 * routes_.size());
  }
  return routes_.emplace(origin.id, std::make_shared<RelayedRoute>(origin)).first->second;
}

void Relay::deliver_own(const std::shared_ptr<RelayedTree>& tree) {
  tree->delivered = true;
  const RelayHeader& header = tree->header();
  const auto route = route_of(header.origin);
  std::vector<std::byte> arguments = tree->take_arguments();
  const RelayNode& own = tree->own();
  for (std::size_t i = 0; i < own.calls.size(); ++i) {
    const RelayedCall& each = own.calls[i];
    // A call that its origin has sent directly, as a relay was lost, is here already.
    if (!route->expect(each.id, tree, nullptr)) {
      tree->settle(each.id);
      continue;
    }
    Envelope envelope;
    envelope.call = {each.id, each.actor, header.fingerprint, header.method, header.urgent, 0, {}};
    envelope.call.order = {each.stream, each.number, CallOrder::Kind::kCall};
    envelope.route = route;
    envelope.deadline = tree->deadline();
    if (tree->cancelled.contains(each.id)) {
      refuse(envelope, not_begun());
      envelope.call.order.kind = CallOrder::Kind::kSkip;
    } else if (i + 1 < own.calls.size()) {
      envelope.call.arguments = arguments;
    } else {
      envelope.call.arguments = std::exchange(arguments, {});
    }
    deliver(header.origin.id, std::move(envelope));
  }
}

void Relay::on_numbered_call(const std::shared_ptr<ReturnRoute>& route, Call call,
                             TimePoint deadline) {
  const ProcessRef origin = route->peer();
  std::uint64_t& last_stream = direct_streams_[route.get()];
  last_stream = std::max(last_stream, call.order.stream);
  std::shared_ptr<ReturnRoute> back = route;
  if (call.order.kind == CallOrder::Kind::kResent) {
    const auto relayed = route_of(origin);
    if (relayed->redirect(call.id, route)) return;
    if (auto kept = relayed->kept(call.id)) return route->reply(std::move(*kept), false);
    (void)relayed->expect(call.id, nullptr, route);
    back = relayed;
  }
  deliver(origin.id, {std::move(call), std::move(back), deadline});
}

bool Relay::may_have(ActorId actor) const { return is_named(actor) || actors_.find(actor); }

void Relay::refuse_if_ended(ProcessId origin, const Envelope& call, bool is_resent) {
  if (call.call.id == 0 || may_have(call.call.actor)) return;
  auto held = order_.cancel(origin, call.call.id);
  if (!held) return;
  if (is_resent) return call.route->reply({call.call.id, lost_reply()}, false);
  if (auto error = actors_.deliver(std::move(*held))) refuse(call, std::move(*error));
}

void Relay::deliver(ProcessId origin, Envelope envelope) {
  ArrivalOrder::Arrivals arrivals;
  if (order_.needs_purge())
    order_.purge([this](ActorId actor) { return may_have(actor); }, arrivals);
  // What a refusal needs.
  Envelope refused;
  refused.call.actor = envelope.call.actor;
  refused.call.id = envelope.call.order.kind == CallOrder::Kind::kSkip ? 0 : envelope.call.id;
  refused.route = envelope.route;
  const bool is_resent = envelope.call.order.kind == CallOrder::Kind::kResent;
  const std::uint64_t stream = envelope.call.order.stream;
  try {
    const auto fate = order_.add(origin, std::move(envelope), arrivals);
    if (fate == ArrivalOrder::Fate::kStale) refuse(refused, stream_ended(stream));
    if (fate == ArrivalOrder::Fate::kTaken && arrivals.ready.empty())
      refuse_if_ended(origin, refused, is_resent);
    if (fate == ArrivalOrder::Fate::kSeen && is_resent)
      refused.route->reply({refused.call.id, lost_reply()}, false);
    else if (fate == ArrivalOrder::Fate::kSeen)
      if (const auto relayed = std::dynamic_pointer_cast<RelayedRoute>(refused.route))
        relayed->forget(refused.call.id);
  } catch (const Error& error) {
    if (refused.call.id != 0)
      refused.route->reply(
          {refused.call.id, Error(error).from(identity_.name(), ""), ReplyState::kRefused}, true);
  }
  run(std::move(arrivals));
}

void Relay::run(ArrivalOrder::Arrivals arrivals) {
  for (Envelope& envelope : arrivals.ready) {
    const std::uint64_t id = envelope.call.id;
    const auto route = envelope.route;
    if (auto error = actors_.deliver(std::move(envelope)); error && id != 0)
      route->reply({id, std::move(*error), ReplyState::kRefused}, true);
  }
  for (const Envelope& envelope : arrivals.dropped)
    refuse(envelope, stream_ended(envelope.call.order.stream));
}

void Relay::cancel(ProcessId origin, std::uint64_t call_id) {
  const auto route = routes_.find(origin);
  if (const auto held = order_.cancel(origin, call_id)) return refuse(*held, not_begun());
  if (route != routes_.end()) actors_.cancel(route->second.get(), call_id);
}

void Relay::cancel_own(RelayedTree& tree, const std::vector<std::uint64_t>& ids) {
  for (const RelayedCall& call : tree.own().calls) {
    if (!ids.empty() && std::ranges::find(ids, call.id) == ids.end()) continue;
    if (!tree.is_open(call.id)) continue;
    if (tree.delivered) cancel(tree.header().origin.id, call.id);
    else tree.cancelled.insert(call.id);
  }
}

void Relay::on_cancel(ProcessId parent, const RelayCancel& cancel) {
  const auto tree = find(parent, cancel.key);
  if (!tree || tree->finished()) return;
  if (cancel.ids.empty()) return cancel_all(*tree);
  tree->cancel_branches(cancel.ids);
  cancel_own(*tree, cancel.ids);
}

void Relay::on_peer_lost(ProcessId peer, const ReturnRoute& route, bool gone) {
  const auto direct = direct_streams_.find(&route);
  const std::uint64_t last_direct = direct == direct_streams_.end() ? 0 : direct->second;
  if (direct != direct_streams_.end()) direct_streams_.erase(direct);
  ArrivalOrder::Arrivals arrivals;
  if (gone) order_.forget(peer, arrivals);
  else order_.drop(peer, last_direct, arrivals);
  run(std::move(arrivals));
  if (const auto found = routes_.find(peer); gone && found != routes_.end())
    found->second->drop_kept();
  std::vector<std::shared_ptr<RelayedTree>> lost;
  for (auto at = trees_.lower_bound({peer, 0}); at != trees_.end() && at->first.first == peer;) {
    lost.push_back(std::move(at->second));
    at = trees_.erase(at);
  }
  for (const auto& tree : lost) {
    if (tree->finished()) continue;
    tree->orphan();
    if (!tree->delivered || (gone && peer == tree->header().origin.id)) {
      cancel_all(*tree);
      continue;
    }
    // If the origin is lost, too, it does not take the calls over.
    timers_.run_after(kTakenOverWithin, [this, orphan = std::weak_ptr(tree)] {
      if (const auto here = orphan.lock()) cancel_all(*here);
    });
  }
}

void Relay::cancel_all(RelayedTree& tree) {
  // Its origin is lost, or sends the calls directly: they have not come.
  if (!tree.delivered) return tree.abandon();
  tree.cancel_branches({});
  cancel_own(tree, {});
}

}  // namespace weft::actors
