#include "actors/system/internal/relayed_tree.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "actors/message/message_frames.h"
#include "actors/system/internal/system_methods.h"

namespace weft::actors {

namespace {

/// Bytes of a result in a message besides its value, about.
constexpr std::size_t kResultBytes = 64;

std::size_t bytes_of(const RelayedResult& result) {
  return kResultBytes + result.value.size() + (result.error ? result.error->message().size() : 0);
}

std::size_t bytes_of(const RelayedPart& part) {
  return kResultBytes + part.value.size() + part.ids.size() * sizeof(part.ids.front());
}

/// Returns a function that combines the results of neighbours. Leaves those alone that do not fit:
/// the origin of the calls, which knows the names of their actors, combines them and fails. Also
/// those whose calls would not fit in one message with the result.
PartialResults::Combine combine_with(ReduceOperation operation, CombineResults combine) {
  return [operation, combine](PartialResult& left, const PartialResult& right) {
    const std::size_t id_bytes = (left.ids.size() + right.ids.size()) * sizeof(left.ids.front());
    if (left.value.size() != right.value.size() || left.value.size() + id_bytes > kMaxMessageBytes)
      return false;
    try {
      combine(operation, left.value, right.value, nullptr);
      return true;
    } catch (...) {
      return false;
    }
  };
}

}  // namespace

RelayedTree::RelayedTree(OutgoingCalls& calls, Parent parent, RelayRequest& request,
                         CombineResults combine, Bytes bytes, Schedule schedule)
    : calls_(calls),
      parent_(std::move(parent)),
      key_(request.key),
      header_(request.header),
      deadline_(deadline_with_remaining(request.header.remaining_ns)),
      own_(std::move(request.nodes.front())),
      bytes_(std::move(bytes)),
      schedule_(std::move(schedule)) {
  *bytes_ += header_.bytes;
  cancelled.insert(header_.ended.begin(), header_.ended.end());
  pending_.key = key_;
  for (const RelayedCall& call : own_.calls) open_.add(call.id);
  for (const RelayNode& node : request.nodes)
    for (const RelayedCall& call : node.calls) open_.add(call.id);
  open_.seal();
  if (header_.reduce && combine != nullptr)
    partial_ =
        std::make_unique<PartialResults>(header_.num_ranks, combine_with(*header_.reduce, combine));
}

RelayedTree::~RelayedTree() {
  if (!finished_) *bytes_ -= header_.bytes;
}

PartialResult RelayedTree::part_of(std::uint64_t call_id, std::vector<std::byte> value) const {
  const auto call = std::ranges::find(own_.calls, call_id, &RelayedCall::id);
  return {0, call->rank, std::move(value), {call_id}};
}

void RelayedTree::answer(Reply reply) {
  RelayedResult result{reply.id, reply.state, {}, std::nullopt, std::nullopt};
  if (auto* error = std::get_if<Error>(&reply.result)) {
    result.error = std::move(*error);
  } else if (auto& value = std::get<std::vector<std::byte>>(reply.result); partial_) {
    partial_->add(part_of(reply.id, std::move(value)));
    return settle(reply.id);
  } else if (!header_.one_way) {
    result.value = std::move(value);
  }
  bool now = false;
  {
    const std::lock_guard lock(mutex_);
    now = keep(std::move(result));
    (void)open_.remove(reply.id);
    now |= open_.empty();
  }
  if (now) send_up();
  else schedule_();
}

bool RelayedTree::keep(RelayedResult result) {
  const bool fails = header_.reduce && result.error;  // the reduction
  pending_bytes_ += result.value.size();
  pending_.results.push_back(std::move(result));
  return fails || pending_bytes_ >= kBatchBytes;
}

bool RelayedTree::is_open(std::uint64_t call_id) const {
  const std::lock_guard lock(mutex_);
  return open_.contains(call_id);
}

void RelayedTree::settle(std::uint64_t call_id) { take({}, {&call_id, 1}); }

void RelayedTree::add(RelayResults results) {
  std::vector<std::uint64_t> settled;
  for (const RelayedResult& result : results.results) settled.push_back(result.id);
  for (const RelayedPart& part : results.parts)
    settled.insert(settled.end(), part.ids.begin(), part.ids.end());
  if (partial_) {
    for (RelayedPart& part : results.parts)
      partial_->add({part.level, part.index, std::move(part.value), std::move(part.ids)});
    results.parts.clear();
  }
  take(std::move(results), settled);
}

void RelayedTree::take(RelayResults results, std::span<const std::uint64_t> settled) {
  bool now = false;
  const bool waits = !results.empty();
  {
    const std::lock_guard lock(mutex_);
    for (RelayedResult& result : results.results) now |= keep(std::move(result));
    for (RelayedPart& part : results.parts) {
      pending_bytes_ += part.value.size();
      pending_.parts.push_back(std::move(part));
    }
    for (const std::uint64_t id : settled) (void)open_.remove(id);
    now |= open_.empty() || pending_bytes_ >= kBatchBytes;
  }
  if (now) send_up();
  else if (waits) schedule_();
}

RelayResults RelayedTree::take_pending() {
  RelayResults results = std::exchange(pending_, {});
  results.key = key_;
  pending_bytes_ = 0;
  if (!partial_ || !open_.empty()) return results;
  for (PartialResult& part : partial_->take())
    results.parts.push_back({static_cast<std::uint32_t>(part.level), part.index,
                             std::move(part.value), std::move(part.ids)});
  return results;
}

RelayResults RelayedTree::send_most(RelayResults results) {
  RelayResults message{key_, {}, {}};
  std::size_t bytes = 0;
  const auto make_room = [&](std::size_t needed) {
    if (bytes > 0 && bytes + needed > kMaxUpBytes) {
      calls_.tell_system(parent_.process, SystemMethod::kRelayResults, encode_results(message));
      message = {key_, {}, {}};
      bytes = 0;
    }
    bytes += needed;
  };
  for (RelayedResult& result : results.results) {
    make_room(bytes_of(result));
    message.results.push_back(std::move(result));
  }
  for (RelayedPart& part : results.parts) {
    make_room(bytes_of(part));
    message.parts.push_back(std::move(part));
  }
  return message;
}

void RelayedTree::send_up() {
  const std::lock_guard order(sending_);
  if (!finished_ && !orphaned_ && calls_.unsent_to(parent_.process) > kMaxUnsentBytes)
    return schedule_();
  RelayResults results;
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    last = open_.empty();
    finished_ = last;
    results = take_pending();
  }
  if (last) *bytes_ -= header_.bytes;
  if (orphaned_ || (!last && results.empty())) return;
  results = send_most(std::move(results));
  if (last) parent_.route->reply({parent_.call_id, encode_results(results)}, false);
  else calls_.tell_system(parent_.process, SystemMethod::kRelayResults, encode_results(results));
}

bool RelayedTree::add_chunk(std::span<const std::byte> bytes) {
  if (arguments_.size() + bytes.size() > header_.bytes)
    throw_error(ErrorCode::kDataLoss, "a tree of calls with more than its {} bytes of arguments",
                header_.bytes);
  for (const auto& branch : branches_) branch->send_chunk(bytes);
  arguments_.insert(arguments_.end(), bytes.begin(), bytes.end());
  return arguments_.size() == header_.bytes;
}

void RelayedTree::abandon() {
  delivered = true;
  arguments_ = {};
  cancel_branches({});
  for (const RelayedCall& call : own_.calls) settle(call.id);
}

void RelayedTree::cancel_branches(const std::vector<std::uint64_t>& ids) {
  for (const auto& branch : branches_) {
    if (ids.empty()) branch->cancel_all();
    else branch->cancel(ids);
  }
}

}  // namespace weft::actors
