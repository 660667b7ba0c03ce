#include "actors/system/internal/branches.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "actors/system/internal/call_tree.h"
#include "actors/system/internal/system_methods.h"

namespace weft::actors {

namespace {

/// Levels of the tree of a reduction: there are at most 2^32 ranks.
constexpr std::uint32_t kMaxLevels = 33;

}  // namespace

std::vector<std::shared_ptr<Branch>> Branches::start(const RelayHeader& header, TimePoint deadline,
                                                     std::uint64_t first,
                                                     std::vector<RelayNode> nodes,
                                                     const std::vector<std::byte>& arguments,
                                                     const Sink& sink, const FindCall& find_call) {
  std::vector<std::shared_ptr<Branch>> branches;
  for (const TreeBlock& block : tree_blocks(first, first + nodes.size())) {
    RelayRequest request{0, header, block.begin, {}, arguments};
    request.header.remaining_ns = remaining_until(deadline);
    for (std::size_t at = block.begin; at < block.end; ++at)
      request.nodes.push_back(std::move(nodes[at - first]));
    branches.push_back(std::make_shared<Branch>(*this, calls_, request.nodes, sink, find_call));
    request.key = branches.back()->key_ = add(branches.back());
    branches.back()->send(request);
  }
  return branches;
}

void Branches::on_results(ProcessId from, RelayResults results) {
  std::shared_ptr<Branch> branch;
  {
    const std::lock_guard lock(mutex_);
    const auto found = branches_.find(results.key);
    if (found == branches_.end()) return;
    branch = found->second;
  }
  if (branch->head_.id == from) branch->on_results(std::move(results));
}

bool Branches::has_refused(ProcessId process) const {
  const std::lock_guard lock(mutex_);
  const auto found = refusers_.find(process);
  return found != refusers_.end() && SteadyClock().now() < found->second;
}

void Branches::note_refusal(ProcessId process) {
  const std::lock_guard lock(mutex_);
  if (refusers_.size() >= kMaxRefusers) refusers_.clear();
  refusers_.insert_or_assign(process, SteadyClock().now() + kRefusalKept);
}

std::uint64_t Branches::add(const std::shared_ptr<Branch>& branch) {
  const std::lock_guard lock(mutex_);
  branches_.emplace(++last_key_, branch);
  return last_key_;
}

void Branches::remove(std::uint64_t key) {
  const std::lock_guard lock(mutex_);
  branches_.erase(key);
}

Branch::Branch(Branches& branches, OutgoingCalls& calls, const std::vector<RelayNode>& nodes,
               Branches::Sink sink, const Branches::FindCall& find_call)
    : branches_(branches), calls_(calls), head_(nodes.front().process), sink_(std::move(sink)) {
  for (const RelayNode& node : nodes)
    for (const RelayedCall& call : node.calls) {
      open_.add(call.id);
      if (!find_call) continue;
      if (auto state = find_call(call.id)) own_calls_.push_back(std::move(state));
    }
  open_.seal();
}

void Branch::send(const RelayRequest& request) {
  const auto state =
      calls_.call_relay(head_, encode(request), own_calls_.empty() ? nullptr : shared_from_this());
  state->when_done([branch = shared_from_this(), state] { branch->on_end(*state); });
}

void Branch::leave(std::vector<std::byte>& arguments) {
  std::vector<std::uint64_t> ended;
  for (const auto& call : own_calls_) {
    if (call->done()) ended.push_back(call->id);
    else call->sent = true;
  }
  own_calls_.clear();
  if (ended.empty()) return;
  auto request = decode<RelayRequest>(arguments);
  request.header.ended = std::move(ended);
  arguments = encode(request);
}

void Branch::send_chunk(std::span<const std::byte> bytes) {
  calls_.tell_system(head_.id, SystemMethod::kRelayChunk, encode_chunk(key_, bytes));
}

void Branch::cancel(const std::vector<std::uint64_t>& ids) {
  RelayCancel message{key_, {}};
  {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t id : ids)
      if (open_.contains(id)) message.ids.push_back(id);
  }
  if (!message.ids.empty())
    calls_.tell_system(head_.id, SystemMethod::kRelayCancel, encode(message));
}

void Branch::cancel_all() {
  calls_.tell_system(head_.id, SystemMethod::kRelayCancel, encode(RelayCancel{key_, {}}));
}

void Branch::claim(RelayResults& results) {
  std::erase_if(results.results,
                [&](const RelayedResult& result) { return !open_.remove(result.id); });
  std::erase_if(results.parts, [&](const RelayedPart& part) {
    const bool is_new =
        !part.ids.empty() && part.level < kMaxLevels &&
        std::ranges::all_of(part.ids, [&](std::uint64_t id) { return open_.contains(id); });
    if (is_new)
      for (const std::uint64_t id : part.ids) (void)open_.remove(id);
    return !is_new;
  });
}

void Branch::on_results(RelayResults results) {
  Branches::Sink sink;
  {
    const std::lock_guard lock(mutex_);
    claim(results);
    sink = sink_;
  }
  if (sink && !results.empty()) sink(std::move(results));
}

void Branch::on_end(const CallState& call) {
  branches_.remove(key_);
  RelayResults results;
  std::optional<Error> reason;
  ReplyState rest = ReplyState::kLost;
  std::optional<ProcessId> refuser;
  if (const auto& error = call.error()) {
    reason = Error(error->code(), call.reason()).at(error->where());
    reason = std::move(*reason).from(error->node(), error->actor());
    if (error->progress() != CallProgress::kMayHaveStarted) rest = ReplyState::kNotSent;
    // One that has no room now may have it for the next tree.
    if (rest == ReplyState::kNotSent && error->code() != ErrorCode::kResourceExhausted &&
        error->code() != ErrorCode::kCancelled) {
      refuser = head_.id;
      branches_.note_refusal(head_.id);
    }
  } else {
    try {
      results = decode<RelayResults>(call.reply());
    } catch (const Error& damage) {
      reason = damage;
    }
  }
  Branches::Sink sink;
  {
    const std::lock_guard lock(mutex_);
    claim(results);
    if (!open_.empty() && !reason)
      reason = Error(ErrorCode::kPeerDied,
                     fmt::format("{} relayed the call and has no result of it", head_.name));
    for (const std::uint64_t id : open_.take())
      results.results.push_back({id, rest, {}, reason, refuser});
    sink = std::exchange(sink_, nullptr);
  }
  if (sink && !results.empty()) sink(std::move(results));
}

}  // namespace weft::actors
