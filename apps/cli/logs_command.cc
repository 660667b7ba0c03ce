// weft logs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/cli/commands.h"
#include "apps/cluster_view/actor_name.h"
#include "apps/cluster_view/head_client.h"
#include "apps/cluster_view/log_view.h"
#include "apps/cluster_view/run_text.h"
#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/terminal.h"
#include "core/base/utf8.h"

namespace weft::apps {
namespace {

using actors::Head;
using actors::LogPiece;

constexpr auto kFollowEvery = std::chrono::milliseconds(250);
constexpr std::size_t kLogsAtOnce = 64;
constexpr std::uint32_t kPieceBytes = 128 * 1024;

/// Printer of the logs of one run, which it may follow.
class LogPrinter final {
 public:
  LogPrinter(LogsOptions options, HeadClient& observer)
      : options_(std::move(options)), observer_(observer) {}

  /// Returns the exit status: 1 if a log could not be read.
  int print() {
    const auto runs = observer_.head().call<&Head::runs>().get();
    const std::uint64_t number = find_run(runs, options_.run).number;
    actors::RunRecord run = observer_.head().call<&Head::run>(number).get();
    while (true) {
      // A starting run may have no process yet.
      const bool waits = options_.follow && options_.device.empty() && run.devices.empty();
      if (!waits || run.ended()) add(find_logs(run, options_.device));
      // Checks before reading: output may arrive until the run has ended.
      const bool ended = run.ended();
      while (read_all()) {
      }
      if (!options_.follow || ended) break;
      observer_.wait(kFollowEvery);
      run = ask([&](const actors::ActorRef<Head>& head) {
        return head.call<&Head::run>(run.number).get();
      });
    }
    for (Followed& log : logs_) print(log, log.splitter.take_incomplete());
    for (const Followed& log : logs_)
      if (!log.problem.empty())
        say(stderr, "weft: the log of {} on host {} cannot be read: {}\n", log.log.label,
            log.log.host, log.problem);
    return std::ranges::any_of(logs_, [](const Followed& log) { return !log.problem.empty(); });
  }

 private:
  struct Followed {
    RunLog log;
    std::uint64_t offset = 0;
    bool begun = false;
    LineSplitter splitter = {};
    std::string problem = {};
  };

  template <typename Call>
  std::invoke_result_t<const Call&, const actors::ActorRef<Head>&> ask(const Call& call) {
    if (options_.follow) return observer_.call_with_retry(call);
    return call(observer_.head());
  }

  void add(std::vector<RunLog> found) {
    for (RunLog& log : found) {
      const bool known = std::ranges::any_of(
          logs_, [&](const Followed& each) { return each.log.name == log.name; });
      if (known) continue;
      width_ = std::max(width_, log.label.size());
      logs_.push_back({std::move(log)});
    }
  }

  /// Reads one piece of each log. Returns true if there is more.
  bool read_all() {
    bool more = false;
    for (std::size_t first = 0; first < logs_.size(); first += kLogsAtOnce) {
      const std::size_t end = std::min(first + kLogsAtOnce, logs_.size());
      std::vector<actors::LogRequest> requests;
      for (std::size_t i = first; i < end; ++i) {
        const std::uint32_t last = logs_[i].begun ? 0 : options_.last;
        requests.push_back({logs_[i].log.host, {logs_[i].log.name, logs_[i].offset, last}});
      }
      const std::vector<LogPiece> pieces = ask([&](const actors::ActorRef<Head>& head) {
        return head.call<&Head::read_logs>(requests, kPieceBytes).get();
      });
      for (std::size_t i = first; i < end; ++i) {
        const LogPiece& piece = pieces.at(i - first);
        Followed& log = logs_[i];
        log.problem = piece.problem;
        if (!piece.problem.empty()) continue;
        log.begun = true;
        log.offset = piece.next;
        print(log, log.splitter.add(piece.text));
        more = more || piece.more;
      }
    }
    std::fflush(stdout);
    return more;
  }

  void print(const Followed& log, const std::vector<std::string>& lines) const {
    for (const std::string& line : lines) {
      if (options_.cluster.json) {
        const nlohmann::ordered_json object = {
            {"device", log.log.label}, {"host", log.log.host}, {"text", line}};
        say(stdout, "{}\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
      } else if (logs_.size() > 1) {
        say(stdout, "{:<{}} | {}\n", printable_line(log.log.label), width_, printable(line));
      } else {
        say(stdout, "{}\n", printable(line));
      }
    }
  }

  const LogsOptions options_;
  HeadClient& observer_;
  std::vector<Followed> logs_;
  std::size_t width_ = 0;
};

/// Finds the run of a named actor that is given in place of a run. Throws Error(kNotFound) with the
/// nearest name, and Error(kFailedPrecondition) for an actor that belongs to no run.
LogsOptions with_run_of_actors(LogsOptions options, HeadClient& observer) {
  if (!options.device.empty()) return options;
  const auto runs = observer.head().call<&Head::runs>().get();
  if (look_up_run(runs, options.run) != nullptr) return options;
  const auto named = observer.head().call<&Head::actors>().get();
  const std::string& wanted = options.run;
  const auto found = find_run_of_actors(named, runs, wanted);
  if (!found) {
    std::vector<std::string> known = known_actor_names(named);
    for (const auto& run : runs) known.push_back(run.name);
    throw_error(ErrorCode::kNotFound,
                "this cluster has no run and no named actor '{}'{}; weft runs and weft actors list "
                "them",
                wanted, did_you_mean(wanted, known));
  }
  if (found->run.empty())
    throw_error(ErrorCode::kFailedPrecondition,
                "'{}' belongs to the cluster, and weft logs reads the logs of runs; its log is in "
                "the log folder of its host, see weft actors",
                wanted);
  options.run = found->run;
  options.device = found->label;
  return options;
}

}  // namespace

int run_logs(const LogsOptions& options) {
  HeadClient observer(options.cluster, "weft logs");
  return LogPrinter(with_run_of_actors(options, observer), observer).print();
}

}  // namespace weft::apps
