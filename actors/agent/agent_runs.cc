// Detached runs of a host: each is a `weft run` that the agent has started.
#include <fmt/format.h>
#include <signal.h>

#include <set>

#include "actors/agent/agent.h"
#include "actors/system/system.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/name.h"

namespace weft::actors {
namespace {

constexpr std::size_t kKeptEnds = 100;
/// Grace period of device processes whose owner has ended.
constexpr Nanoseconds kOwnerExitGrace = std::chrono::seconds(2);

}  // namespace

DetachedRun Agent::start_run(const RunSubmission& submission, std::uint64_t term) {
  check_head(term);
  check_not_leaving();
  check_name("the name of a run", submission.name);
  if (config_.run_executable.empty())
    throw_error(ErrorCode::kFailedPrecondition,
                "host {} cannot start detached runs: its agent was not started by `weft join`; "
                "start it with weft join",
                config_.name);
  check_binary(submission.app, submission.app_sha256);
  // Skips files that an earlier agent has left in the same folder.
  const auto file_of = [&](std::uint64_t launch) {
    return config_.log_directory / fmt::format("{}.{}.yaml", submission.name, launch);
  };
  do ++last_launch_;
  while (std::filesystem::exists(file_of(last_launch_)));
  const std::uint64_t launch = last_launch_;
  write_atomically(file_of(launch), submission.text, 0600);
  const LogId log{{submission.name, launch}, 0, true};
  ProcessSpec spec;
  spec.label = "run " + submission.name;
  spec.command = {config_.run_executable.string(),
                  "--weft-role=run",
                  "--config",
                  file_of(launch).string(),
                  "--out",
                  submission.out,
                  "--started-by",
                  fmt::format("{}:{}", config_.name, launch),
                  "--token-fd",
                  std::to_string(kSecretDescriptor)};
  spec.command.insert(spec.command.end(), config_.run_arguments.begin(),
                      config_.run_arguments.end());
  spec.secret = context_.system().token();
  spec.log_file = config_.log_directory / log.file();
  std::error_code none;
  const auto written = std::filesystem::file_size(spec.log_file, none);
  if (events_.on_log) events_.on_log(log, none ? 0 : written);
  auto poster = context_.poster();
  const pid_t pid = launcher_.launch(
      spec, {[this, poster, launch](const ExitReport& evidence) mutable {
               poster.post([this, launch, evidence] { run_ended(launch, evidence); });
             },
             [](const ExitReport&) {}});
  runs_[launch] = pid;
  events_.on_processes(num_processes());
  return {config_.name, launch, pid, spec.log_file.string()};
}

void Agent::signal_run(std::uint64_t launch, bool now, std::uint64_t term) {
  check_head(term);
  const auto run = runs_.find(launch);
  if (run == runs_.end())
    throw_error(ErrorCode::kNotFound, "the run on host {} has already ended", config_.name);
  launcher_.signal(run->second, now ? SIGKILL : SIGINT);
}

void Agent::run_ended(std::uint64_t launch, const ExitReport& evidence) {
  if (runs_.erase(launch) == 0) return;
  run_ends_.push_back({config_.name, launch, evidence});
  if (run_ends_.size() > kKeptEnds) run_ends_.pop_front();
  events_.on_run_end(head_, run_ends_.back());
  events_.on_processes(num_processes());
}

void Agent::report_owner_exit(const RunResult& end) {
  const ProcessId owner = context_.caller().id;
  std::set<MeshKey> meshes;
  for (const auto& [id, slot] : slots_)
    if (slot.owner == owner) meshes.insert(slot.key);
  if (meshes.empty()) return;
  for (const MeshKey& key : meshes) stop_slots({key, {}}, kOwnerExitGrace);
  owner_ends_.push_back({owner, end});
  if (owner_ends_.size() > kKeptEnds) owner_ends_.pop_front();
  events_.on_owner_end(head_, owner_ends_.back());
}

}  // namespace weft::actors
