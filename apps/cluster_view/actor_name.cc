#include "apps/cluster_view/actor_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "apps/cluster_view/log_view.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

using actors::ActorStatus;
using actors::RunRecord;

std::string mesh_name(const std::string& label) { return label.substr(0, label.find('[')); }

/// Returns true if `wanted` is the name of the run, or its number. The cluster has no run's name.
bool is_run(const std::string& run, const std::vector<RunRecord>& runs, const std::string& wanted) {
  return wanted == (run.empty() ? actors::kKeeperName : run) ||
         std::ranges::any_of(runs, [&](const RunRecord& record) {
           return record.name == run && !record.ended() && std::to_string(record.number) == wanted;
         });
}

}  // namespace

ActorName ActorName::of(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos) return {"", text};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

std::string full_name(const ActorStatus& actor) {
  return actor.run.empty() ? actor.label : actor.run + "/" + actor.label;
}

std::vector<ActorStatus> find_actors(const std::vector<ActorStatus>& actors,
                                     const std::vector<RunRecord>& runs,
                                     const std::string& wanted) {
  const ActorName name = ActorName::of(wanted);
  std::vector<ActorStatus> found;
  for (const ActorStatus& actor : actors) {
    const bool has_label =
        short_label(actor.label) == short_label(name.label) || mesh_name(actor.label) == name.label;
    if (has_label && (name.run.empty() || is_run(actor.run, runs, name.run)))
      found.push_back(actor);
  }
  const auto of_the_cluster = [](const ActorStatus& actor) { return actor.run.empty(); };
  if (name.run.empty() && std::ranges::any_of(found, of_the_cluster))
    std::erase_if(found, std::not_fn(of_the_cluster));
  return found;
}

std::optional<ActorName> find_run_of_actors(const std::vector<ActorStatus>& actors,
                                            const std::vector<RunRecord>& runs,
                                            const std::string& wanted) {
  const std::string label = ActorName::of(wanted).label;
  std::set<std::string> found;
  for (const ActorStatus& actor : find_actors(actors, runs, wanted)) found.insert(actor.run);
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return ActorName{*found.begin(), label};
  std::vector<std::string> names;
  for (const std::string& run : found) names.push_back(fmt::format("{}/{}", run, label));
  throw_error(ErrorCode::kInvalidArgument, "several runs have actors named '{}': {}; give one",
              wanted, fmt::join(names, ", "));
}

std::vector<std::string> known_actor_names(const std::vector<ActorStatus>& actors) {
  std::set<std::string> names;
  for (const ActorStatus& actor : actors)
    for (const std::string& label : {actor.label, mesh_name(actor.label)}) {
      names.insert(label);
      if (!actor.run.empty()) names.insert(actor.run + "/" + label);
    }
  return {names.begin(), names.end()};
}

}  // namespace weft::apps
