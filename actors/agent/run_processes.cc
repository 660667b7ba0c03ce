#include "actors/agent/run_processes.h"

#include <fmt/format.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "actors/agent/binary_hashes.h"
#include "actors/system/system.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/name.h"

namespace weft::actors {
namespace {

constexpr std::size_t kKeptEnds = 100;

}  // namespace

RunProcesses::RunProcesses(Context& context, const AgentConfig& config, const AgentEvents& events,
                           const JoinedHead& head, ProcessLauncher& launcher,
                           std::function<void()> on_change)
    : context_(context),
      config_(config),
      events_(events),
      head_(head),
      launcher_(launcher),
      on_change_(std::move(on_change)) {}

RunProcesses::~RunProcesses() {
  for (const auto& [launch, pid] : runs_) launcher_.stop(pid, Nanoseconds::zero());
}

DetachedRun RunProcesses::start(const RunSubmission& submission) {
  check_name("the name of a run", submission.name);
  if (config_.run_executable.empty())
    throw_error(ErrorCode::kFailedPrecondition,
                "host {} cannot start detached runs: its agent was not started by `weft join`; "
                "start it with weft join",
                config_.name);
  check_binary(config_.name, submission.app, submission.app_sha256, config_.hash_directory);
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
  const pid_t pid =
      launcher_.launch(spec, {[this, poster, launch](const ExitReport& evidence) mutable {
                                poster.post([this, launch, evidence] { ended(launch, evidence); });
                              },
                              [](const ExitReport&) {}});
  runs_[launch] = pid;
  on_change_();
  return {config_.name, launch, pid, spec.log_file.string()};
}

void RunProcesses::signal(std::uint64_t launch, bool now) const {
  const auto run = runs_.find(launch);
  if (run == runs_.end())
    throw_error(ErrorCode::kNotFound, "the run on host {} has already ended", config_.name);
  launcher_.signal(run->second, now ? SIGKILL : SIGINT);
}

void RunProcesses::interrupt_all() const {
  for (const auto& [launch, pid] : runs_) launcher_.signal(pid, SIGINT);
}

void RunProcesses::ended(std::uint64_t launch, const ExitReport& evidence) {
  if (runs_.erase(launch) == 0) return;
  ends_.push_back({config_.name, launch, evidence});
  if (ends_.size() > kKeptEnds) ends_.pop_front();
  events_.on_run_end(head_.process(), ends_.back());
  on_change_();
}

void RunProcesses::repeat_ends() const {
  for (const DetachedRunExit& end : ends_) events_.on_run_end(head_.process(), end);
}

}  // namespace weft::actors
