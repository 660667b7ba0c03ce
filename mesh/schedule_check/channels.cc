#include "mesh/schedule_check/channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::mesh {
namespace {

using Lane = std::tuple<int, int, int, int>;

Lane lane_of(const Operation& half, ChannelModel model) {
  const int out = half.what == Operation::What::kSend ? 1 : 0, kind = half.backward ? 1 : 0;
  switch (model) {
    case ChannelModel::kBlocking:
    case ChannelModel::kOneStream: return {0, 0, 0, 0};
    case ChannelModel::kPerKind: return {kind, 0, 0, 0};
    case ChannelModel::kPerPeer: return {half.peer, out, 0, 0};
    case ChannelModel::kPerPeerAndKind: return {half.peer, out, kind, 0};
    case ChannelModel::kPerEdge: return {half.edge, kind, out, 1};
  }
  return {0, 0, 0, 0};
}

/// Operations as nodes; arcs from what must come first. The halves of a rendezvous are one node. There is no choice in static
/// lists, so they can finish if and only if this graph has no cycle.
class Waits {
 public:
  Waits(const LoweredSchedule& lowered, ChannelModel model, int buffers) : lowered_(lowered) {
    number(buffers == 0);
    for (std::size_t actor = 0; actor < lowered.size(); ++actor) chain(actor, model);
    if (buffers > 0) bound(static_cast<std::size_t>(buffers));
  }

  std::string cycle() const {
    std::vector<int> waiting(before_.size(), 0), free;
    std::vector<std::vector<int>> after(before_.size());
    for (std::size_t node = 0; node < before_.size(); ++node) {
      waiting[node] = static_cast<int>(before_[node].size());
      for (const int first : before_[node]) after[static_cast<std::size_t>(first)].push_back(static_cast<int>(node));
      if (waiting[node] == 0) free.push_back(static_cast<int>(node));
    }
    for (std::size_t at = 0; at < free.size(); ++at) {
      for (const int next : after[static_cast<std::size_t>(free[at])]) {
        if (--waiting[static_cast<std::size_t>(next)] == 0) free.push_back(next);
      }
    }
    const auto blocked = std::ranges::find_if(waiting, [](int count) { return count > 0; });
    if (blocked == waiting.end()) return "";
    std::vector<int> path, place(before_.size(), -1);
    int node = static_cast<int>(blocked - waiting.begin());
    while (place[static_cast<std::size_t>(node)] < 0) {
      place[static_cast<std::size_t>(node)] = static_cast<int>(path.size());
      path.push_back(node);
      for (const int first : before_[static_cast<std::size_t>(node)]) {
        if (waiting[static_cast<std::size_t>(first)] > 0) node = first;
      }
    }
    std::string text;
    for (std::size_t i = static_cast<std::size_t>(place[static_cast<std::size_t>(node)]); i < path.size(); ++i) {
      text += (text.empty() ? "" : " <- ") + name(path[i]);
    }
    return text + " <- " + name(node);
  }

 private:
  using Tag = std::tuple<int, bool, int>;
  /// Of an operation: actor, and place in its list.
  using Place = std::pair<std::size_t, std::size_t>;

  /// "1RECV_F0 on 1 = 0SEND_F0 on 0" for a rendezvous.
  std::string name(int node) const {
    std::string text;
    for (const auto& [actor, at] : places_[static_cast<std::size_t>(node)]) {
      text += fmt::format("{}{} on {}", text.empty() ? "" : " = ", to_string(lowered_[actor][at]), actor);
    }
    return text;
  }

  void number(bool rendezvous) {
    std::map<Tag, int> shared;
    for (std::size_t actor = 0; actor < lowered_.size(); ++actor) {
      nodes_.emplace_back();
      for (const Operation& one : lowered_[actor]) {
        int node = static_cast<int>(places_.size());
        if (one.what != Operation::What::kRun && rendezvous) {
          node = shared.try_emplace({one.edge, one.backward, one.microbatch}, node).first->second;
        }
        nodes_.back().push_back(node);
        if (node == static_cast<int>(places_.size())) {
          places_.emplace_back();
          before_.emplace_back();
        }
        places_[static_cast<std::size_t>(node)].push_back({actor, nodes_.back().size() - 1});
      }
    }
  }

  void add(int first, int then) {
    if (first != then) before_[static_cast<std::size_t>(then)].push_back(first);
  }

  void chain(std::size_t actor, ChannelModel model) {
    std::map<Lane, int> last_of_lane;
    int last_run = -1, last = -1;
    for (std::size_t i = 0; i < lowered_[actor].size(); ++i) {
      const Operation& one = lowered_[actor][i];
      const int node = nodes_[actor][i];
      if (model == ChannelModel::kBlocking) {
        if (last >= 0) add(last, node);
        last = node;
        continue;
      }
      if (one.what == Operation::What::kRun) {
        if (last_run >= 0) add(last_run, node);
        last_run = node;
        made_by_[{static_cast<int>(actor), one.action.stage, one.action.microbatch, pass(one.action.kind)}] = node;
        continue;
      }
      const auto [lane, fresh] = last_of_lane.try_emplace(lane_of(one, model), node);
      if (!fresh) add(lane->second, node);
      lane->second = node;
    }
    if (model == ChannelModel::kBlocking) return;
    for (std::size_t i = 0; i < lowered_[actor].size(); ++i) {
      const Operation& one = lowered_[actor][i];
      if (one.what == Operation::What::kRun) continue;
      const int run = made_by_.at({static_cast<int>(actor), one.action.stage, one.action.microbatch, pass(one.action.kind)});
      if (one.what == Operation::What::kSend) add(run, nodes_[actor][i]);
      else add(nodes_[actor][i], run);
    }
  }

  static int pass(ActionKind kind) { return static_cast<int>(kind); }

  /// A receive waits for its send; a send for the receive that frees its buffer.
  void bound(std::size_t buffers) {
    std::map<std::pair<int, bool>, std::vector<int>> receives;
    std::map<Tag, int> sends;
    for (std::size_t actor = 0; actor < lowered_.size(); ++actor) {
      for (std::size_t i = 0; i < lowered_[actor].size(); ++i) {
        const Operation& one = lowered_[actor][i];
        if (one.what == Operation::What::kSend) sends[{one.edge, one.backward, one.microbatch}] = nodes_[actor][i];
        if (one.what == Operation::What::kReceive) receives[{one.edge, one.backward}].push_back(nodes_[actor][i]);
      }
    }
    std::map<std::pair<int, bool>, std::size_t> sent;
    for (std::size_t actor = 0; actor < lowered_.size(); ++actor) {
      for (std::size_t i = 0; i < lowered_[actor].size(); ++i) {
        const Operation& one = lowered_[actor][i];
        if (one.what == Operation::What::kReceive) {
          if (const auto send = sends.find({one.edge, one.backward, one.microbatch}); send != sends.end()) {
            add(send->second, nodes_[actor][i]);
          }
        } else if (one.what == Operation::What::kSend) {
          const std::size_t n = sent[{one.edge, one.backward}]++;
          const std::vector<int>& freed = receives[{one.edge, one.backward}];
          if (n >= buffers && n - buffers < freed.size()) add(freed[n - buffers], nodes_[actor][i]);
        }
      }
    }
  }

  const LoweredSchedule& lowered_;
  std::vector<std::vector<int>> nodes_;  ///< Per actor and place.
  std::vector<std::vector<Place>> places_;
  std::vector<std::vector<int>> before_;
  std::map<std::tuple<int, int, int, int>, int> made_by_;
};

}  // namespace

std::string_view to_string(ChannelModel model) {
  static constexpr std::string_view kNames[] = {
      "blocking", "one stream", "a lane per kind", "a lane per peer", "a lane per peer and kind", "a lane per edge"};
  return kNames[static_cast<std::size_t>(model)];
}

std::string find_deadlock(const LoweredSchedule& lowered, ChannelModel model, int buffers) {
  return Waits(lowered, model, buffers).cycle();
}

std::optional<int> smallest_buffers(const LoweredSchedule& lowered, ChannelModel model, int microbatches) {
  const auto finishes = [&](int buffers) { return find_deadlock(lowered, model, buffers).empty(); };
  if (finishes(0)) return 0;
  if (!finishes(microbatches)) return std::nullopt;
  // More buffers only take waits away.
  int low = 0, high = microbatches;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (finishes(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace weft::mesh
