#include "apps/cli/schedule_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "mesh/schedule/duplex.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"
#include "mesh/search/search.h"

namespace weft::apps {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

/// Parses the whole of `text` as a number from 0 up. `option`, with its value, is for the error.
double number(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value) || value < 0) {
    throw_error(ErrorCode::kInvalidArgument, "{}: '{}' is not a number from 0 up", option, text);
  }
  return value;
}

std::vector<double> numbers(const std::string& option, const std::string& text) {
  std::vector<double> values;
  for (const std::string& part : split(text, ',')) values.push_back(number(option, part));
  return values;
}

void check_counts(const ScheduleQuery& request) {
  for (const auto& [option, value, least, most] :
       {std::tuple("--stages", request.stages, 1, 4096),
        std::tuple("--microbatches", request.microbatches, 1, 100000),
        std::tuple("--chunks", request.chunks, 0, 1024),
        std::tuple("--group", request.group, 0, 100000),
        std::tuple("--credits", request.credits, 0, 100000)}) {
    if (value < least || value > most) {
      throw_error(ErrorCode::kInvalidArgument, "{} {}: expected a number from {} to {}", option,
                  value, least, most);
    }
  }
}

/// Value of --vocabulary.
struct VocabularyQuery {
  double scores = 0, grads = 0;
  mesh::VocabularyMode mode = mesh::VocabularyMode::kLast;
};

VocabularyQuery vocabulary_of(const ScheduleQuery& request) {
  VocabularyQuery result;
  if (request.vocabulary.empty()) return result;
  const std::string option = "--vocabulary " + request.vocabulary;
  const std::vector<std::string> parts = split(request.vocabulary, ',');
  const std::string barriers = parts.size() > 2 ? parts[2] : "1";
  result.mode = barriers == "1"            ? mesh::VocabularyMode::kVocab2
                : barriers == "2"          ? mesh::VocabularyMode::kVocab1
                : barriers == "interlaced" ? mesh::VocabularyMode::kInterlaced
                                           : mesh::VocabularyMode::kLast;
  if (parts.size() < 2 || parts.size() > 3 || result.mode == mesh::VocabularyMode::kLast) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: expected S,T or S,T,BARRIERS, the times of the two passes on each actor and 1 "
                "(vocab-2), 2 (vocab-1) or interlaced, such as 0.1,0.1,2",
                option);
  }
  result.scores = number(option, parts[0]);
  result.grads = number(option, parts[1]);
  return result;
}

/// Returns the costs of `count` stages by the options, before stages are divided into chunks.
mesh::ScheduleCosts costs_of(const ScheduleQuery& request, int count) {
  mesh::ScheduleCosts costs;
  const VocabularyQuery vocabulary = vocabulary_of(request);
  const std::string times = "--times " + request.times, transfer = "--transfer " + request.transfer;
  std::vector<std::string> triples = split(request.times, ';');
  if (triples.size() == 1) triples.assign(count, triples.front());
  if (std::ssize(triples) != count) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: {} triples for {} stages; give one for all, or one each", times,
                triples.size(), count);
  }
  for (const std::string& triple : triples) {
    const std::vector<double> values = numbers(times, triple);
    if (values.size() != 3) {
      throw_error(
          ErrorCode::kInvalidArgument,
          "{}: expected F,I,W, the times of forward, input gradient and weight gradient, not '{}'",
          times, triple);
    }
    mesh::StageCosts stage{.forward = values[0], .input_grad = values[1], .weight_grad = values[2]};
    stage.activations = request.activations;
    stage.for_weight_grad = request.activations * request.weight_part;
    stage.vocabulary_scores = vocabulary.scores;
    stage.vocabulary_grads = vocabulary.grads;
    costs.stages.push_back(stage);
  }
  std::vector<double> seconds = numbers(transfer, request.transfer);
  const std::vector<mesh::StageEdge> chain = mesh::chain_edges(count, request.tensor);
  if (seconds.size() == 1) seconds.assign(chain.size(), seconds.front());
  if (seconds.size() != chain.size()) {
    throw_error(ErrorCode::kInvalidArgument,
                "{}: {} times for {} edges; give one for all, or one each", transfer,
                seconds.size(), chain.size());
  }
  for (std::size_t i = 0; i < chain.size(); ++i)
    costs.edges.push_back({chain[i], seconds[i], seconds[i]});
  for (const std::string& text : request.skips) {
    const std::vector<std::string> parts = split(text, ':'), ends = split(parts.front(), '-');
    const std::string option = "--skip " + text;
    if (parts.size() > 3 || ends.size() != 2) {
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: expected FROM-TO, FROM-TO:TIME or FROM-TO:TIME:MEMORY, such as 0-3:0.5",
                  option);
    }
    const auto from = static_cast<int>(number(option, ends[0])),
               to = static_cast<int>(number(option, ends[1]));
    if (from >= to || to >= count) {
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: a skip connection leads from a stage to a later one, of 0 to {}", option,
                  count - 1);
    }
    const double time = parts.size() > 1 ? number(option, parts[1]) : seconds.front();
    const auto memory =
        parts.size() > 2 ? static_cast<std::uint64_t>(number(option, parts[2])) : request.tensor;
    costs.edges.push_back({{from, to, memory}, time, time});
  }
  if (!request.vocabulary.empty())
    costs.vocabulary_tensor = seconds.empty() ? 0 : *std::ranges::max_element(seconds);
  costs.dispatch_time = request.dispatch_time;
  return costs;
}

mesh::ScheduleLimits limits_of(const ScheduleQuery& request, int actors) {
  mesh::ScheduleLimits limits;
  if (request.bubble) limits.makespan_bubble = *request.bubble / 100;
  if (request.memory.empty()) return limits;
  limits.memory_of_actor = numbers("--memory " + request.memory, request.memory);
  if (limits.memory_of_actor.size() == 1)
    limits.memory_of_actor.assign(actors, limits.memory_of_actor[0]);
  if (std::ssize(limits.memory_of_actor) != actors) {
    throw_error(ErrorCode::kInvalidArgument,
                "--memory {}: {} caps for {} actors; give one for all, or one each", request.memory,
                limits.memory_of_actor.size(), actors);
  }
  return limits;
}

void share_nics(const ScheduleQuery& request, int actors, mesh::ScheduleCosts& costs) {
  costs.nic_of_actor.clear();
  if (!request.share_nics) return;
  for (int actor = 0; actor < actors; ++actor) costs.nic_of_actor.push_back(actor);
}

ScheduleCase named_case(const ScheduleQuery& request, const mesh::NamedSchedule& named) {
  ScheduleCase result;
  // Ignores --chunks for schedules without that choice, since compare uses the same options for
  // all.
  const int chunks = named.any_chunks ? request.chunks : 0;
  const mesh::ScheduleCosts costs = costs_of(request, request.stages);
  result.schedule = mesh::make_schedule(
      {std::string(named.name), request.stages, request.microbatches, chunks, request.group,
       vocabulary_of(request).mode,
       mesh::vocabulary_times(
           costs, mesh::place_stages(mesh::StagePlacement::kOnePerActor, request.stages, 1))});
  result.costs = mesh::split_stages(costs, result.schedule.stages / request.stages);
  result.note = named.summary;
  if (const mesh::VocabularyMode mode = vocabulary_of(request).mode;
      mode != mesh::VocabularyMode::kLast)
    result.note += fmt::format("; with vocabulary passes ({})", to_string(mode));
  return result;
}

ScheduleCase auto_case(const ScheduleQuery& request) {
  ScheduleCase result;
  mesh::SearchRequest search;
  search.microbatches = request.microbatches;
  search.costs = costs_of(request, request.stages);
  share_nics(request, request.stages, search.costs);
  search.memory_of_actor = limits_of(request, request.stages).memory_of_actor;
  search.simulation.credits = request.credits;
  search.vocabulary = vocabulary_of(request).mode;
  mesh::SearchResult found = mesh::search_placed_schedule(request.stages, search, result.costs);
  result.schedule = std::move(found.schedule);
  const char* placement =
      result.schedule.stages == request.stages ? "one stage on each actor"
      : result.schedule.actor_of_stage.back() == result.schedule.actor_of_stage.front()
          ? "a V of stages"
          : "a loop of stages";
  const bool reached = found.simulation.step_time <= found.bound_in_memory * (1 + 1e-9);
  const std::string least = reached ? "which is the least"
                                    : fmt::format("{:.6g} is a lower bound", found.bound_in_memory);
  result.note = fmt::format(
      "searched: {}, begun with {}, {} actions simulated; {:.6g}, {} for one or two stages on each "
      "actor",
      placement, found.improved_from, found.simulated, found.simulation.step_time, least);
  return result;
}

/// Adds the requested vocabulary passes to a schedule file without any. Rejects a file with other
/// passes.
void fit_vocabulary(const ScheduleQuery& request, ScheduleCase& one) {
  const mesh::VocabularyMode mode = vocabulary_of(request).mode;
  if (mode == mesh::VocabularyMode::kLast) return;
  const bool has_passes =
      std::ranges::any_of(one.schedule.actors, [](const std::vector<mesh::Action>& actions) {
        return std::ranges::any_of(
            actions, [](const mesh::Action& action) { return is_vocabulary_pass(action.kind); });
      });
  if (has_passes) {
    const int asked = vocabulary_barriers(mode), barriers = one.schedule.vocabulary_barriers;
    if (asked == barriers) return;
    throw_error(ErrorCode::kInvalidArgument,
                "--vocabulary {}: asks for {} barrier{}, but {} has {}; its header '# vocabulary "
                "barriers' says so",
                request.vocabulary, asked, asked == 1 ? "" : "s", one.schedule.name, barriers);
  }
  one.schedule = with_vocabulary(std::move(one.schedule), mode,
                                 mesh::vocabulary_times(one.costs, one.schedule.actor_of_stage));
  one.note += "; vocabulary passes put in";
}

ScheduleCase file_case(const ScheduleQuery& request, const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw_error(
        ErrorCode::kInvalidArgument,
        "cannot read the schedule file {}; weft schedule show NAME --csv prints one to start from",
        path);
  std::stringstream text;
  text << file.rdbuf();
  mesh::ScheduleText read = mesh::read_schedule(text.str(), path);
  ScheduleCase result;
  result.note = fmt::format("from {}", path);
  if (read.ignored_operations > 0)
    result.note += fmt::format("; {} transfers and parameter moves left out, as Weft infers them",
                               read.ignored_operations);
  result.schedule = std::move(read.schedule);
  const int actors = result.schedule.actors.size(), stages = result.schedule.stages;
  // A single triple is the work of an actor, so that schedules with different numbers of stages are
  // comparable. A list is per stage.
  const bool by_actor = stages % actors == 0 && request.times.find(';') == std::string::npos;
  result.costs = by_actor ? mesh::split_stages(costs_of(request, actors), stages / actors)
                          : costs_of(request, stages);
  if (read.edges) {
    const std::string transfer = "--transfer " + request.transfer;
    const std::vector<double> seconds = numbers(transfer, request.transfer);
    result.costs.edges.clear();
    if (seconds.size() != 1 && seconds.size() != read.edges->size()) {
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: {} times, but {} has {} edges; give one for all, or one each", transfer,
                  seconds.size(), path, read.edges->size());
    }
    for (std::size_t i = 0; i < read.edges->size(); ++i) {
      const double time = seconds[seconds.size() == 1 ? 0 : i];
      result.costs.edges.push_back({(*read.edges)[i], time, time});
    }
  }
  fit_vocabulary(request, result);
  return result;
}

/// Makes the compounds that the query asks for.
void apply_duplex(const ScheduleQuery& request, const std::string& name, ScheduleCase& one) {
  if (request.duplex.empty()) return;
  if (request.duplex == "off") {
    one.schedule = mesh::without_compounds(std::move(one.schedule));
  } else if (request.duplex == "halves") {
    one.schedule = mesh::with_halves(one.schedule);
    mesh::scale_microbatch(one.costs, 0.5);
  } else if (name == "1f1b" || name == "eager-1f1b") {
    one.schedule = with_vocabulary(mesh::make_crossed_1f1b(request.stages, request.microbatches),
                                   vocabulary_of(request).mode,
                                   mesh::vocabulary_times(one.costs, one.schedule.actor_of_stage));
    one.note += "; forwards and backwards in pairs, after more forwards";
  } else if (!mesh::has_compounds(one.schedule)) {
    throw_error(ErrorCode::kInvalidArgument,
                "--duplex cross: goes with 1f1b, eager-1f1b, dualpipe-v and files that have "
                "compounds, not with {}; take --duplex halves",
                name);
  }
}

ScheduleCase case_of(const ScheduleQuery& request, const std::string& name) {
  if (name == "auto") return auto_case(request);
  for (const mesh::NamedSchedule& named : mesh::named_schedules()) {
    if (named.name == name) return named_case(request, named);
  }
  if (name.find_first_of("/.") != std::string::npos || std::filesystem::is_regular_file(name))
    return file_case(request, name);
  std::vector<std::string> names = mesh::schedule_names();
  names.emplace_back("auto");
  throw_error(ErrorCode::kInvalidArgument,
              "there is neither a schedule nor a file '{}'{}; the schedules are {}", name,
              did_you_mean(name, names), fmt::join(names, ", "));
}

}  // namespace

std::vector<ScheduleCase> parse_schedule_query(const ScheduleQuery& request) {
  check_counts(request);
  if (request.weight_part > 1) {
    throw_error(ErrorCode::kInvalidArgument, "--weight-part {}: a part is from 0 to 1",
                request.weight_part);
  }
  std::vector<ScheduleCase> cases;
  for (const std::string& name : request.schedules) {
    ScheduleCase one = case_of(request, name);
    apply_duplex(request, name, one);
    const int actors = one.schedule.actors.size();
    one.label = name;
    one.microbatches = one.schedule.microbatches / (request.duplex == "halves" ? 2 : 1);
    one.settings = fmt::format(
        "{} stage{} on {} actor{}, {} microbatches{}, F,I,W {}{}, transfer {}{}",
        one.schedule.stages, one.schedule.stages == 1 ? "" : "s", actors, actors == 1 ? "" : "s",
        one.microbatches, request.duplex.empty() ? "" : ", duplex " + request.duplex, request.times,
        request.vocabulary.empty() ? "" : ", S,T " + request.vocabulary, request.transfer,
        request.memory.empty() ? "" : ", memory for " + request.memory);
    one.limits = limits_of(request, actors);
    one.options.credits = request.credits;
    share_nics(request, actors, one.costs);
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace weft::apps
