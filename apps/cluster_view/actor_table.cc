#include "apps/cluster_view/actor_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "apps/cluster_view/actor_name.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

using actors::ActorStatus;
using actors::Head;
using actors::ProcessId;

constexpr std::size_t kColumns = 7;
constexpr std::size_t kClass = 1, kHost = 2;
constexpr std::size_t kShortestColumn = 10;
using Cells = std::array<std::string, kColumns>;
using Widths = std::array<std::size_t, kColumns>;

bool is_dead(const ActorStatus& actor) { return actor.state == "dead" || actor.state == "ended"; }

/// Shortens a text in its middle: "example..counter".
std::string shortened(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  const std::size_t end = (width - 1) / 2;
  return text.substr(0, width - 2 - end) + ".." + text.substr(text.size() - end);
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

Cells cells_of(const ActorRow& row) {
  const ActorStatus& actor = row.status;
  return {full_name(actor),
          actor.interface,
          or_dash(actor.host),
          actor.pid == 0 ? "-" : std::to_string(actor.pid),
          actor.state,
          row.load ? std::to_string(row.load->calls) : "-",
          row.load ? std::to_string(row.load->queue) : "-"};
}

/// Makes a column narrower, so that the table fits `columns`.
void narrow(Widths& widths, std::size_t column, std::size_t columns) {
  std::size_t total = 2 * (kColumns - 1);
  for (const std::size_t width : widths) total += width;
  if (total <= columns || widths[column] <= kShortestColumn) return;
  widths[column] -= std::min(total - columns, widths[column] - kShortestColumn);
}

std::string line_of(const Cells& cells, const Widths& widths) {
  std::string line = fmt::format("{:<{}}", cells[0], widths[0]);
  for (std::size_t i = 1; i < kColumns; ++i)
    line += i + 2 < kColumns ? fmt::format("  {:<{}}", shortened(cells[i], widths[i]), widths[i])
                             : fmt::format("  {:>{}}", cells[i], widths[i]);
  return line + "\n";
}

/// Returns the actors without an answer, merged by the reason.
std::string notes_text(const std::vector<ActorRow>& rows) {
  std::vector<std::pair<const ActorRow*, std::size_t>> notes;  // first actor, number of actors
  for (const ActorRow& row : rows) {
    if (row.note.empty()) continue;
    const auto same =
        std::ranges::find_if(notes, [&](const auto& note) { return note.first->note == row.note; });
    if (same == notes.end()) notes.emplace_back(&row, 1);
    else ++same->second;
  }
  std::string text;
  for (const auto& [row, count] : notes)
    text += fmt::format("{}{}: {}\n", full_name(row->status),
                        count == 1 ? "" : fmt::format(" and {} more", count - 1), row->note);
  return text;
}

}  // namespace

std::vector<ActorRow> actor_rows(const std::vector<ActorStatus>& actors,
                                 const SurveyedProcesses& surveyed) {
  const auto processes = surveyed.merged();
  std::vector<ActorRow> rows;
  for (const ActorStatus& actor : actors) {
    ActorRow& row = rows.emplace_back(ActorRow{actor, std::nullopt, ""});
    if (is_dead(actor)) continue;
    const auto process = processes.find(actor.address.process.id);
    if (process == processes.end()) {
      row.note = "its process was not asked: neither its host nor its driver answers";
      continue;
    }
    row.note = process->second.problem;
    if (!row.note.empty()) continue;
    const auto& there = process->second.actors;
    const auto found = std::ranges::find(there, actor.address.actor, &actors::ActorSurvey::actor);
    if (found != there.end()) row.load = ActorLoad{found->running.size(), found->queued};
    else row.note = "its process has ended it: it was stopped, or is restarted";
  }
  return rows;
}

std::vector<ActorRow> list_actors(HeadClient& observer, Nanoseconds within) {
  auto listing = observer.head().call<&Head::actors>();
  auto hosts = observer.head().call<&Head::members>();
  auto runs = observer.head().call<&Head::runs>().get();
  const std::vector<ActorStatus> actors = listing.get();
  std::set<ProcessId> wanted;
  std::set<std::string> wanted_hosts, wanted_runs;
  for (const ActorStatus& actor : actors) {
    if (is_dead(actor)) continue;
    wanted.insert(actor.address.process.id);
    wanted_hosts.insert(actor.host);
    wanted_runs.insert(actor.run);
  }
  ClusterSurvey survey(observer, within);
  for (const actors::Member& member : hosts.get())
    if (wanted_hosts.contains(member.name)) survey.add_member(member);
  for (actors::RunRecord& run : runs) {
    if (run.ended() || !wanted_runs.contains(run.name)) continue;
    std::erase_if(run.devices, [&](const actors::RunDevice& device) {
      return !wanted.contains(device.process.id);
    });
    survey.add_run(run);
    for (const actors::RunDevice& device : run.devices) wanted.erase(device.process.id);
  }
  for (const ActorStatus& actor : actors)
    if (wanted.erase(actor.address.process.id) > 0) survey.add_actor(actor);
  return actor_rows(actors, survey.ask());
}

std::string actors_text(const std::vector<ActorRow>& rows, std::size_t columns) {
  if (rows.empty())
    return "this cluster has no named actor; a driver starts one with "
           "cluster.spawn<T>(\"NAME\")\n";
  std::vector<Cells> lines = {{"name", "class", "host", "pid", "state", "calls", "queue"}};
  for (const ActorRow& row : rows) lines.push_back(cells_of(row));
  Widths widths{};
  for (const Cells& cells : lines)
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], cells[i].size());
  if (columns > 0) {
    narrow(widths, kClass, columns);
    narrow(widths, kHost, columns);
  }
  std::string text;
  for (const Cells& cells : lines) text += line_of(cells, widths);
  return text + notes_text(rows);
}

nlohmann::ordered_json actors_json(const std::vector<ActorRow>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const ActorRow& row : rows) {
    const ActorStatus& actor = row.status;
    nlohmann::ordered_json one = {{"name", full_name(actor)}, {"run", actor.run},
                                  {"label", actor.label},     {"class", actor.interface},
                                  {"host", actor.host},       {"pid", actor.pid},
                                  {"state", actor.state},     {"calls", nullptr},
                                  {"queue", nullptr},         {"note", row.note}};
    if (row.load) {
      one["calls"] = row.load->calls;
      one["queue"] = row.load->queue;
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace weft::apps
