// Formats a WaitGraph as text and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/cluster_view/wait_graph.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

constexpr std::size_t kLargestUnmergedGroup = 3;  // larger groups of equal waiters are merged
constexpr std::size_t kMaxCycles = 8;
constexpr std::size_t kMaxEnds = 4;

std::string left_text(const std::optional<double>& seconds_left) {
  if (!seconds_left) return "no deadline";
  return *seconds_left > 0 ? fmt::format("{} left", format_seconds(*seconds_left))
                           : "its deadline has passed";
}

/// Replaces numbers by '#', so that waiters with the same activity compare equal.
std::string mask_numbers(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    const bool digit = std::isdigit(static_cast<unsigned char>(letter)) != 0 || letter == '.';
    if (!digit) result += letter;
    else if (result.empty() || result.back() != '#') result += '#';
  }
  return result;
}

class Drawing final {
 public:
  explicit Drawing(const WaitGraph& graph) : graph_(graph), drawn_(graph.waiters.size()) {}

  /// Draws a waiter, its activities and the waiters that it waits for. Draws each waiter once.
  void tree(std::size_t root, const WaitNode::WaitEdge* by, int depth) {
    std::vector<Item> items = {{root, by, depth}};
    drawn_[root] = true;
    while (!items.empty()) {
      const Item item = items.back();
      items.pop_back();
      if (!item.more.empty()) {
        line(item.depth, item.more);
        continue;
      }
      draw(item);
      std::vector<Item> below = children(item);
      // The items are a stack, so the first child is pushed last.
      items.insert(items.end(), below.rbegin(), below.rend());
    }
  }

  bool is_drawn(std::size_t waiter) const { return drawn_[waiter]; }
  void line(int depth, const std::string& text) {
    text_ += std::string(2 * depth, ' ') + text + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  struct Item {
    std::size_t waiter = 0;
    const WaitNode::WaitEdge* by = nullptr;  // wait that leads to the waiter
    int depth = 0;
    std::string more = {};  // text of an item without a waiter: "and 3 more ..."
  };

  std::string heading(const Item& item) const {
    const WaitNode& waiter = graph_.waiters[item.waiter];
    std::string text = waiter.name;
    if (!waiter.place.empty()) text += fmt::format(" ({})", waiter.place);
    if (item.by != nullptr && item.by->is_call)
      text += fmt::format(": {} for {}, {}{}", item.by->what, format_seconds(item.by->seconds),
                          left_text(item.by->seconds_left),
                          item.by->blocked_by_mailbox ? "; not sent: its mailbox is full" : "");
    return text;
  }

  /// Lists the waiter's activities, without the calls.
  std::vector<std::string> activity_lines(std::size_t index) const {
    const WaitNode& waiter = graph_.waiters[index];
    std::vector<std::string> lines;
    if (!waiter.problem.empty()) lines.push_back(waiter.problem);
    if (!waiter.ending.empty()) lines.push_back(waiter.ending);
    for (const actors::RunningHandler& running : waiter.running)
      lines.push_back(fmt::format("{} '{}' for {}{}{}", running.has_thread ? "busy with" : "in",
                                  running.method, format_seconds(running.seconds),
                                  running.waits_for_reader ? "; it waits for its reader" : "",
                                  running.cancelled ? "; it was told to stop" : ""));
    if (waiter.activity && !waiter.activity->text.empty()) {
      std::string at = waiter.activity->text;
      if (!waiter.activity->wait) at += " for " + format_seconds(waiter.activity->seconds);
      lines.push_back(std::move(at));
    }
    if (waiter.queued > 0)
      lines.push_back(fmt::format("{} call{} wait{} in its mailbox", waiter.queued,
                                  waiter.queued == 1 ? "" : "s", waiter.queued == 1 ? "s" : ""));
    for (std::string& each : transfers(waiter)) lines.push_back(std::move(each));
    return lines;
  }

  std::vector<std::string> transfers(const WaitNode& waiter) const {
    if (!waiter.activity || !waiter.activity->wait) return {};
    std::vector<std::string> missing, cycle, too;
    for (const WaitNode::WaitEdge& wait : waiter.waits) {
      if (wait.is_call) continue;
      const auto& other = graph_.waiters[wait.on];
      if (wait.peer_started && other.activity->wait &&
          other.activity->wait->key == waiter.activity->wait->key)
        too.push_back(other.name);
      if (wait.peer_started) continue;
      missing.push_back(graph_.waiters[wait.on].name);
      if (wait.in_cycle) cycle.push_back(missing.back());
    }
    std::string text = fmt::format("waits for {} for {}, ", waiter.activity->wait->what,
                                   format_seconds(waiter.activity->seconds));
    if (!missing.empty())
      text += fmt::format("which {} {} not begun", fmt::join(missing, ", "),
                          missing.size() == 1 ? "has" : "have");
    else if (!too.empty())
      text += fmt::format("with {}, who wait{} for it too", fmt::join(too, ", "),
                          too.size() == 1 ? "s" : "");
    else text += "all peers have started it; bytes are in flight, or the network is stuck";
    if (!cycle.empty()) text += "  <- CYCLE";
    return {text};
  }

  void draw(const Item& item) {
    line(item.depth, heading(item));
    for (const std::string& text : activity_lines(item.waiter)) line(item.depth + 1, text);
    for (const WaitNode::WaitEdge& wait : graph_.waiters[item.waiter].waits)
      if (wait.is_call && drawn_[wait.on])
        line(item.depth + 1,
             fmt::format("waits for {}: {} for {}, {}{}", graph_.waiters[wait.on].name, wait.what,
                         format_seconds(wait.seconds), left_text(wait.seconds_left),
                         wait.in_cycle ? "  <- CYCLE" : ""));
  }

  /// Returns the awaited waiters that are not drawn yet. Of many with the same activity, keeps the
  /// one that has waited longest.
  std::vector<Item> children(const Item& item) {
    std::vector<Item> found;
    for (const WaitNode::WaitEdge& wait : graph_.waiters[item.waiter].waits) {
      if (drawn_[wait.on]) continue;
      drawn_[wait.on] = true;
      found.push_back({wait.on, &wait, item.depth + 1});
    }
    std::map<std::string, std::vector<const Item*>> alike;
    for (const Item& each : found) {
      const bool plain = std::ranges::all_of(graph_.waiters[each.waiter].waits,
                                             [&](const auto& wait) { return drawn_[wait.on]; });
      std::string looks = mask_numbers(heading(each));
      for (const std::string& text : activity_lines(each.waiter))
        looks += "\n" + mask_numbers(text);
      if (!plain) looks += "\n" + std::to_string(each.waiter);  // own waits: not merged
      alike[looks].push_back(&each);
    }
    std::vector<Item> shown;
    std::set<std::string> told;
    for (const Item& each : found) {
      const auto group = std::ranges::find_if(alike, [&](const auto& of) {
        return std::ranges::find(of.second, &each) != of.second.end();
      });
      if (group->second.size() <= kLargestUnmergedGroup) {
        shown.push_back(each);
        continue;
      }
      if (!told.insert(group->first).second) continue;
      const std::vector<const Item*>& same = group->second;
      shown.push_back(
          **std::ranges::max_element(same, {}, [](const Item* one) { return one->by->seconds; }));
      shown.push_back({0, nullptr, item.depth + 1,
                       fmt::format("and {} more do the same: {} .. {}", same.size() - 1,
                                   graph_.waiters[same.front()->waiter].name,
                                   graph_.waiters[same.back()->waiter].name)});
    }
    return shown;
  }

  const WaitGraph& graph_;
  std::vector<bool> drawn_;
  std::string text_;
};

/// Returns all waiters that `root` waits for, directly or not, and `root`.
std::vector<std::size_t> reachable(const WaitGraph& graph, std::size_t root) {
  std::vector<bool> seen(graph.waiters.size());
  std::vector<std::size_t> found = {root};
  seen[root] = true;
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const WaitNode::WaitEdge& wait : graph.waiters[found[i]].waits)
      if (!seen[wait.on]) {
        seen[wait.on] = true;
        found.push_back(wait.on);
      }
  return found;
}

std::vector<std::size_t> roots_of(const WaitGraph& graph, std::optional<std::size_t> about) {
  if (about) return {*about};
  std::vector<std::size_t> roots;
  for (std::size_t i = 0; i < graph.waiters.size(); ++i)
    if (graph.waiters[i].is_root) roots.push_back(i);
  return roots;
}

std::string cycle_text(const WaitGraph& graph, const std::vector<std::size_t>& cycle) {
  std::string text = "cycle: ";
  for (const std::size_t waiter : cycle) text += graph.waiters[waiter].name + " -> ";
  return text + graph.waiters[cycle.front()].name;
}

/// Describes the waiters at which all waits end: those without waits.
std::string final_waiters_text(const WaitGraph& graph, const std::vector<std::size_t>& roots) {
  std::set<std::size_t> ends;
  for (const std::size_t root : roots) {
    if (graph.waiters[root].waits.empty()) continue;
    for (const std::size_t waiter : reachable(graph, root))
      if (graph.waiters[waiter].waits.empty()) ends.insert(waiter);
  }
  std::vector<std::string> names;
  for (const std::size_t waiter : ends) names.push_back(graph.waiters[waiter].name);
  if (names.empty()) return "";
  std::ranges::sort(names);
  if (names.size() > kMaxEnds)
    return fmt::format("no deadlock: all waits end at {} actors that do not wait", names.size());
  return fmt::format("no deadlock: all waits end at {}, which do{} not wait",
                     fmt::join(names, ", "), names.size() == 1 ? "es" : "");
}

}  // namespace

std::string to_text(const WaitGraph& graph, std::optional<std::size_t> about) {
  Drawing drawing(graph);
  const std::vector<std::size_t> roots = roots_of(graph, about);
  for (const std::size_t root : roots)
    if (!drawing.is_drawn(root)) drawing.tree(root, nullptr, 0);
  if (about) {
    for (const WaitNode& waiter : graph.waiters)
      for (const WaitNode::WaitEdge& wait : waiter.waits)
        if (wait.on == *about && !wait.peer_started)
          drawing.line(1, fmt::format("is waited for by {}: {} for {}, {}", waiter.name, wait.what,
                                      format_seconds(wait.seconds), left_text(wait.seconds_left)));
    if (!graph.waiters[*about].is_involved()) drawing.line(1, "is idle");
  } else {
    // Draws waiters that no other waiter waits for.
    for (std::size_t i = 0; i < graph.waiters.size(); ++i)
      if (!drawing.is_drawn(i) && graph.waiters[i].is_involved()) drawing.tree(i, nullptr, 0);
  }
  std::string text = drawing.take();
  for (std::size_t i = 0; i < graph.cycles.size() && i < kMaxCycles; ++i)
    text += cycle_text(graph, graph.cycles[i]) + "\n";
  if (graph.cycles.size() > kMaxCycles)
    text += fmt::format("and {} more cycles\n", graph.cycles.size() - kMaxCycles);
  if (const std::string ends = final_waiters_text(graph, roots);
      graph.cycles.empty() && !ends.empty())
    text += ends + "\n";
  return text;
}

nlohmann::ordered_json to_json(const WaitGraph& graph, std::optional<std::size_t> about) {
  std::vector<bool> wanted(graph.waiters.size(), !about);
  if (about) {
    for (const std::size_t waiter : reachable(graph, *about)) wanted[waiter] = true;
    for (std::size_t i = 0; i < graph.waiters.size(); ++i)
      for (const WaitNode::WaitEdge& wait : graph.waiters[i].waits)
        if (wait.on == *about) wanted[i] = true;
  }
  nlohmann::ordered_json json;
  json["waiters"] = nlohmann::ordered_json::array();
  const auto seconds_left = [](const std::optional<double>& left) {
    return left ? nlohmann::ordered_json(*left) : nlohmann::ordered_json();
  };
  for (std::size_t i = 0; i < graph.waiters.size(); ++i) {
    const WaitNode& waiter = graph.waiters[i];
    if (!wanted[i]) continue;
    nlohmann::ordered_json one = {{"name", waiter.name}, {"place", waiter.place}};
    one["answers"] = waiter.problem.empty();
    one["problem"] = waiter.problem;
    one["ending"] = waiter.ending;
    one["handlers"] = nlohmann::ordered_json::array();
    for (const actors::RunningHandler& running : waiter.running)
      one["handlers"].push_back({{"method", running.method},
                                 {"caller", running.caller.name},
                                 {"seconds", running.seconds},
                                 {"seconds_left", seconds_left(running.seconds_left)},
                                 {"holds_thread", running.has_thread},
                                 {"waits_for_reader", running.waits_for_reader},
                                 {"cancelled", running.cancelled}});
    one["queued"] = waiter.queued;
    one["at"] = nullptr;
    if (waiter.activity && !waiter.activity->text.empty())
      one["at"] = {{"text", waiter.activity->text}, {"seconds", waiter.activity->seconds}};
    one["waits"] = nlohmann::ordered_json::array();
    for (const WaitNode::WaitEdge& wait : waiter.waits)
      one["waits"].push_back({{"on", graph.waiters[wait.on].name},
                              {"kind", wait.is_call ? "call" : "transfer"},
                              {"what", wait.what},
                              {"seconds", wait.seconds},
                              {"seconds_left", seconds_left(wait.seconds_left)},
                              {"held", wait.blocked_by_mailbox},
                              {"begun", wait.peer_started},
                              {"in_cycle", wait.in_cycle}});
    json["waiters"].push_back(std::move(one));
  }
  json["cycles"] = nlohmann::ordered_json::array();
  for (const auto& cycle : graph.cycles) {
    auto names = nlohmann::ordered_json::array();
    for (const std::size_t waiter : cycle) names.push_back(graph.waiters[waiter].name);
    json["cycles"].push_back(std::move(names));
  }
  return json;
}

}  // namespace weft::apps
