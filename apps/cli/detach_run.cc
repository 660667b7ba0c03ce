#include "apps/cli/detach_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "actors/access/token.h"
#include "actors/access/user_state.h"
#include "actors/agent/binary_hashes.h"
#include "apps/cluster_view/head_client.h"
#include "core/base/error.h"
#include "core/base/terminal.h"

namespace weft::apps {
namespace {

using actors::Head;
using actors::RunRecord;
using actors::RunState;

constexpr auto kSubmitWithin = std::chrono::seconds(40);
constexpr auto kStartsWithin = std::chrono::seconds(60);
constexpr auto kLookEvery = std::chrono::milliseconds(100);

actors::RunSubmission submission_of(const FileOptions& options, const actors::RunHeader& header,
                                    const std::string& resolved) {
  namespace fs = std::filesystem;
  actors::RunSubmission submission;
  submission.name = header.name;
  submission.host = header.cluster.hosts.front().name;
  submission.text = resolved;
  const fs::path out = options.out.empty() ? fs::path("runs") / header.name : fs::path(options.out);
  submission.out = fs::absolute(out).lexically_normal().string();
  submission.app = header.app.string();
  submission.app_sha256 = actors::binary_sha256(header.app, actors::hash_directory());
  return submission;
}

}  // namespace

int detach_run(const FileOptions& options, const actors::RunHeader& header,
               const std::string& resolved) {
  HeadClient observer({options.head, options.token_file, options.certificate, options.insecure},
                      "weft run");
  const actors::RunSubmission submission = submission_of(options, header, resolved);
  const std::uint64_t number =
      observer.head().within(kSubmitWithin).call<&Head::submit>(submission).get();
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + kStartsWithin;
  RunRecord run;
  do {
    observer.wait(kLookEvery);
    run = observer.call_with_retry(
        [&](const actors::ActorRef<Head>& head) { return head.call<&Head::run>(number).get(); });
  } while (run.state == RunState::kStarting && clock.now() < give_up);
  const bool failed = run.state == RunState::kFailed || run.state == RunState::kLost;
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"run", run.name},  {"number", run.number},    {"state", actors::to_string(run.state)},
        {"pid", run.pid},   {"host", submission.host}, {"out", submission.out},
        {"why", run.reason}};
    say(stdout, "{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return failed ? 1 : 0;
  }
  if (failed)
    throw_error(ErrorCode::kFailedPrecondition, "run '{}' has failed on host {}: {}", run.name,
                submission.host, run.reason);
  say(stdout, "{}",
      wrapped_for_terminal(STDOUT_FILENO,
                           fmt::format("run '{}' is detached: host {} has started it (pid {}); its "
                                       "results are there, in {}\n",
                                       run.name, submission.host, run.pid, submission.out)));
  say(stdout,
      "\n  see it    weft runs\n"
      "  read it   weft logs {0} -f\n"
      "  end it    weft cancel {0}\n",
      run.name);
  return 0;
}

}  // namespace weft::apps
