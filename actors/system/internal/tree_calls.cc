#include "actors/system/internal/tree_calls.h"

#include <algorithm>
#include <map>
#include <utility>

#include "actors/system/internal/call_tree.h"
#include "actors/system/internal/relay_messages.h"

namespace weft::actors {

/// Calls of one tree that have no result yet. Shared by its branches and by the table of calls.
class TreeCalls::Tree final : public std::enable_shared_from_this<Tree> {
 public:
  Tree(TreeCalls& owner, Call message, Arguments arguments)
      : owner_(owner),
        bytes_(owner.bytes_),
        message_(std::move(message)),
        arguments_(std::move(arguments)) {
    *bytes_ += arguments_->size();
  }
  ~Tree() { *bytes_ -= arguments_->size(); }

  /// Adds a call, if the actor at `address` has room for it. Before start().
  bool add(const std::shared_ptr<CallState>& state,
           const std::shared_ptr<const ActorAddress>& address, std::size_t rank);
  /// Sends all calls.
  void start(const RelayHeader& header, TimePoint deadline);
  bool empty() const { return entries_.empty(); }
  void take(RelayResults results);
  void cancel(std::uint64_t id);
  void forget(std::uint64_t id);

 private:
  struct Entry {
    std::shared_ptr<CallState> state;
    std::shared_ptr<Route> route;
    std::shared_ptr<const ActorAddress> address;
    CallOrder order;
    std::size_t rank = 0;
  };
  /// Returns a call; null if it has been removed.
  std::shared_ptr<CallState> find_call(std::uint64_t id);
  /// Removes a call and frees its place; nullopt if it has been removed before.
  std::optional<Entry> remove(std::uint64_t id);
  void take_result(RelayedResult result);
  void take_part(RelayedPart part);
  /// Sends a call to its process, as it may not have come over the tree. `reached`: it may have.
  void send_directly(const Entry& entry, bool reached, const Error& why);
  /// Sends a call that was not started, as its stream is over, in the next stream.
  void send_anew(const Entry& entry, std::uint64_t ended_stream);
  /// Returns true if a part has the ranks of its place. `entries`: those that it has, by rank.
  bool covers(const RelayedPart& part, const std::vector<Entry>& entries) const;
  void send_cancelled();

  TreeCalls& owner_;  // not used by the destructor
  const std::shared_ptr<std::atomic<std::uint64_t>> bytes_;
  std::size_t num_ranks_ = 0;  // set by start()
  const Call message_;         // without arguments
  const Arguments arguments_;
  std::vector<RelayNode> nodes_;                   // before start()
  std::map<ProcessId, std::size_t> node_of_;       // before start()
  std::vector<std::shared_ptr<Branch>> branches_;  // set by start()
  Mutex mutex_;                                    // guards the members below
  bool started_ = false;                           // branches_ is set
  std::unordered_map<std::uint64_t, Entry> entries_;
  std::vector<std::uint64_t> cancelled_;  // to be sent
};

bool TreeCalls::Tree::add(const std::shared_ptr<CallState>& state,
                          const std::shared_ptr<const ActorAddress>& address, std::size_t rank) {
  const ProcessRef& process = address->process;
  const std::shared_ptr<Link> link = owner_.links_.find_or_add_reachable(process);
  Call message = message_;
  message.actor = address->actor;
  const auto order = link->reserve_relayed(message, arguments_->size());
  if (!order) return false;
  const auto [node, is_new] = node_of_.try_emplace(process.id, nodes_.size());
  if (is_new) nodes_.push_back({process, {}});
  nodes_[node->second].calls.push_back(
      {state->id, address->actor, order->stream, order->number, static_cast<std::uint32_t>(rank)});
  entries_.emplace(state->id, Entry{state, link, address, *order, rank});
  return true;
}

void TreeCalls::Tree::start(const RelayHeader& header, TimePoint deadline) {
  num_ranks_ = header.num_ranks;
  {
    const std::lock_guard lock(owner_.mutex_);
    for (const auto& [id, entry] : entries_) owner_.trees_.emplace(id, shared_from_this());
  }
  const bool is_inline = arguments_->size() <= kMaxInlineBytes;
  auto branches = owner_.branches_.start(
      header, deadline, 0, std::move(nodes_), is_inline ? *arguments_ : std::vector<std::byte>(),
      [tree = shared_from_this()](RelayResults results) { tree->take(std::move(results)); },
      [this](std::uint64_t id) { return find_call(id); });
  for (std::size_t at = 0; !is_inline && at < arguments_->size(); at += kRelayChunkBytes)
    for (const auto& branch : branches)
      branch->send_chunk(
          std::span(*arguments_).subspan(at, std::min(kRelayChunkBytes, arguments_->size() - at)));
  {
    const std::lock_guard lock(mutex_);
    branches_ = std::move(branches);
    started_ = true;
  }
  send_cancelled();
}

std::shared_ptr<CallState> TreeCalls::Tree::find_call(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second.state;
}

std::optional<TreeCalls::Tree::Entry> TreeCalls::Tree::remove(std::uint64_t id) {
  std::optional<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return std::nullopt;
    entry = std::move(found->second);
    entries_.erase(found);
  }
  {
    const std::lock_guard lock(owner_.mutex_);
    owner_.trees_.erase(id);
  }
  entry->route->relay_done(entry->address->actor, message_.urgent, arguments_->size());
  return entry;
}

void TreeCalls::Tree::take(RelayResults results) {
  for (RelayedResult& result : results.results) take_result(std::move(result));
  for (RelayedPart& part : results.parts) take_part(std::move(part));
}

void TreeCalls::Tree::take_result(RelayedResult result) {
  const auto entry = remove(result.id);
  if (!entry) return;
  if (result.refuser) owner_.branches_.note_refusal(*result.refuser);
  if (result.state == ReplyState::kRefused && result.error)
    if (const auto stream = ended_stream(*result.error)) return send_anew(*entry, *stream);
  if (result.state == ReplyState::kNotSent || result.state == ReplyState::kLost)
    return send_directly(
        *entry, result.state == ReplyState::kLost,
        result.error.value_or(Error(ErrorCode::kInternal, "a relay gave no reason")));
  Reply reply{result.id, std::move(result.value), result.state};
  if (result.error) reply.result = std::move(*result.error);
  owner_.calls_.finish(std::move(reply));
}

void TreeCalls::Tree::take_part(RelayedPart part) {
  std::vector<Entry> entries;
  for (const std::uint64_t id : part.ids)
    if (auto entry = remove(id)) entries.push_back(std::move(*entry));
  if (entries.size() < part.ids.size()) {
    // The result covers a call that has failed or gone elsewhere. The others tell their own once
    // more.
    const Error why(ErrorCode::kPeerDied, "a combined result covers an actor that was lost");
    for (const Entry& entry : entries) send_directly(entry, true, why);
    return;
  }
  std::ranges::sort(entries, {}, &Entry::rank);
  std::vector<std::uint64_t> ids;
  for (const Entry& entry : entries) ids.push_back(entry.state->id);
  if (!covers(part, entries)) {
    const Error damage(ErrorCode::kDataLoss, "a combined result covers other ranks than it says");
    for (const std::uint64_t id : ids) owner_.calls_.finish({id, damage});
    return;
  }
  owner_.calls_.finish_combined(ids, std::move(part.value), part.level);
}

bool TreeCalls::Tree::covers(const RelayedPart& part, const std::vector<Entry>& entries) const {
  if (part.level >= 32 || part.index > num_ranks_ >> part.level) return false;
  const std::size_t first = part.index << part.level;
  const std::size_t end = std::min(num_ranks_, first + (std::size_t{1} << part.level));
  return first < end && entries.size() == end - first && entries.front().rank == first &&
         entries.back().rank == end - 1;
}

void TreeCalls::Tree::send_anew(const Entry& entry, std::uint64_t ended_stream) {
  entry.route->end_stream(ended_stream, owner_.links_.next_stream());
  if (entry.state->done()) return;
  OutgoingCall outgoing{message_, entry.state, entry.state->deadline, true};
  outgoing.call.actor = entry.address->actor;
  outgoing.call.id = entry.state->id;
  outgoing.call.arguments = *arguments_;
  entry.state->sent = false;
  std::optional<Error> lost;
  try {
    owner_.calls_.route_to(entry.address->process)->send(std::move(outgoing));
  } catch (const Error& error) {
    lost = error;
  }
  if (lost) lose_call(entry.state, *lost);
}

void TreeCalls::Tree::send_directly(const Entry& entry, bool reached, const Error& why) {
  OutgoingCall outgoing;
  outgoing.call = message_;
  outgoing.call.actor = entry.address->actor;
  outgoing.call.order = entry.order;
  if (entry.state->done()) {
    // Its number is still missing where it goes.
    outgoing.call.order.kind = CallOrder::Kind::kSkip;
    outgoing.call.interface_fingerprint = 0;
    outgoing.call.method = 0;
  } else {
    outgoing.call.order.kind = CallOrder::Kind::kResent;
    outgoing.call.id = entry.state->id;
    outgoing.call.arguments = *arguments_;
    outgoing.state = entry.state;
    outgoing.deadline = entry.state->deadline;
    if (!reached) entry.state->sent = false;
  }
  std::optional<Error> lost;
  try {
    const auto route = owner_.calls_.route_to(entry.address->process);
    // Another connection has replaced the one for which the call was numbered.
    if (route != entry.route) lost = why;
    else route->send(std::move(outgoing));
  } catch (const Error& error) {
    lost = error;
  }
  if (lost && !entry.state->done()) lose_call(entry.state, *lost);
}

void TreeCalls::Tree::cancel(std::uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
    if (cancelled_.size() > 1 || !started_) return;
  }
  // Those that are cancelled with it go in the same messages.
  owner_.loop_.post([tree = shared_from_this()] { tree->send_cancelled(); });
}

void TreeCalls::Tree::send_cancelled() {
  std::vector<std::uint64_t> ids;
  {
    const std::lock_guard lock(mutex_);
    ids = std::exchange(cancelled_, {});
  }
  if (ids.empty()) return;
  for (const auto& branch : branches_) branch->cancel(ids);
}

void TreeCalls::Tree::forget(std::uint64_t id) { (void)remove(id); }

std::vector<std::shared_ptr<CallState>> TreeCalls::call(const Targets& targets,
                                                        const System::Method& method,
                                                        Nanoseconds within,
                                                        std::vector<std::byte> arguments,
                                                        Wanted wanted) {
  if (targets.empty()) return {};
  OutgoingCalls::check_size(arguments.size(), *targets.front(), method.name);
  Call message{0, ActorId(), method.fingerprint, method.index, method.urgent, 0, {}};
  const auto shared = std::make_shared<const std::vector<std::byte>>(std::move(arguments));
  std::shared_ptr<Tree> tree;
  if (targets.size() >= kMinTreeRanks && *bytes_ + shared->size() <= kMaxBytes)
    tree = std::make_shared<Tree>(*this, message, shared);
  std::vector<std::shared_ptr<CallState>> calls;
  std::vector<std::size_t> direct;
  calls.reserve(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    calls.push_back(calls_.make(targets[i], method.name, within));
    // A call whose deadline has passed already is not sent.
    const bool is_late = calls.back()->deadline <= calls.back()->began;
    if (!tree || is_late || !add(*tree, calls.back(), i, method.idempotent, message, shared))
      direct.push_back(i);
  }
  if (tree && !tree->empty()) {
    RelayHeader header;
    header.origin = identity_.process();
    header.run = identity_.introduction().run;
    header.fingerprint = method.fingerprint;
    header.method = method.index;
    header.urgent = method.urgent;
    header.one_way = !wanted.values;
    header.bytes = shared->size();
    header.num_ranks = static_cast<std::uint32_t>(targets.size());
    header.reduce = wanted.reduce;
    tree->start(header, calls.front()->deadline);
  }
  for (const std::size_t i : direct) {
    message.actor = targets[i]->actor;
    message.arguments = *shared;
    calls_.send(calls[i], message, method.idempotent);
  }
  return calls;
}

bool TreeCalls::add(Tree& tree, const std::shared_ptr<CallState>& state, std::size_t rank,
                    bool repeatable, const Call& message, const Arguments& arguments) {
  const auto& target = state->target;
  const bool is_supervised = target->owner.id != ProcessId();
  auto address = target;
  if (is_supervised) {
    const auto settled = relocations_.settled(*target);
    if (!settled) return false;
    if (*settled != *target) address = std::make_shared<const ActorAddress>(*settled);
  }
  if (address->process.id == identity_.id() || branches_.has_refused(address->process.id))
    return false;
  try {
    if (!tree.add(state, address, rank)) return false;
  } catch (const Error&) {
    return false;  // its process is dead or cannot be reached
  }
  if (is_supervised) calls_.keep_in_tree(*state, message, arguments, address, repeatable);
  return true;
}

std::shared_ptr<TreeCalls::Tree> TreeCalls::find(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = trees_.find(id);
  return found == trees_.end() ? nullptr : found->second;
}

bool TreeCalls::cancel(std::uint64_t id) {
  const auto tree = find(id);
  if (tree) tree->cancel(id);
  return tree != nullptr;
}

void TreeCalls::forget(std::uint64_t id) {
  if (const auto tree = find(id)) tree->forget(id);
}

}  // namespace weft::actors
