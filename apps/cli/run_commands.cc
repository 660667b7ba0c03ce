// weft run, weft check, weft plan, weft strategy.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/access/token.h"
#include "actors/launch/access_arguments.h"
#include "actors/launch/app_role.h"
#include "actors/launch/check_report.h"
#include "actors/launch/child_report.h"
#include "actors/launch/role_arguments.h"
#include "actors/launch/run_supervisor.h"
#include "apps/cli/commands.h"
#include "apps/cli/detach_run.h"
#include "apps/cli/resolved_run.h"
#include "apps/plan_options/plan_options.h"
#include "apps/run_files/checkpoint.h"
#include "apps/run_files/device_keys.h"
#include "apps/run_files/run_directory.h"
#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/non_blocking_output.h"
#include "core/base/sha256.h"
#include "core/base/terminal.h"
#include "core/config/config_document.h"
#include "core/config/config_problem.h"
#include "mesh/strategy/strategy_text.h"

namespace weft::apps {
namespace {

ConfigDocument load(const FileOptions& options) {
  return ConfigDocument::load(options.file, options.overrides, options.folder);
}

/// Reads the part of a run file that `weft` itself needs.
actors::RunHeader read_header(const ConfigDocument& document) {
  DeviceConfig device;  // The app's processes use it.
  return actors::parse_run_header(document, actors::program_directory(), keys_into(device));
}

int run_app(const FileOptions& options, const actors::RunHeader& header, const std::string& role,
            std::vector<std::string> more) {
  if (options.json && !options.detach) more.emplace_back("--json");
  return actors::run_app_role(header.app, role, options.file, options.overrides, more,
                              options.folder);
}

int run_app(const FileOptions& options, const std::string& role, std::vector<std::string> more) {
  return run_app(options, read_header(load(options)), role, std::move(more));
}

/// Returns the checkpoint to resume from, if the run file or --set names one. A run inside that
/// checkpoint's folder continues in place.
std::optional<std::filesystem::path> resume_path(const ConfigDocument& document) {
  const auto checkpoint = document.root().find("checkpoint");
  const auto resume = checkpoint ? checkpoint->find("resume") : std::nullopt;
  if (!resume) return std::nullopt;
  return resume->as_path();
}

/// Removes partial checkpoints of an interrupted run, which only take up space.
void remove_partial_checkpoints(const std::filesystem::path& checkpoints) {
  if (!std::filesystem::exists(checkpoints)) return;
  try {
    CheckpointStore(checkpoints, 1);
  } catch (...) {
    say(stderr, "note: {}\n", current_error().message());  // not fatal
  }
}

/// Returns true if a file differs from the one that was read. The originals of a detached run may
/// be on another machine.
bool differs_here(const actors::ReadFile& file) {
  try {
    return sha256_file(file.path) != file.sha256;
  } catch (const Error&) {
    return true;
  }
}

/// Runs the app's check of a run file. `about` names the checked file in the message of success.
int check_run(const FileOptions& options, std::vector<std::string> more, const std::string& about) {
  try {
    const int status = run_app(options, "check", std::move(more));
    if (status == 0 && !options.json) std::printf("%s: valid\n", about.c_str());
    return status;
  } catch (const Error& error) {
    if (!options.json || error.code() != ErrorCode::kInvalidConfig) throw;
    std::fputs(
        problems_json(options.file, problems_of(error, options.file, options.overrides)).c_str(),
        stdout);
    return 2;
  }
}

std::vector<std::string> quiet_unless_json(const FileOptions& options) {
  return options.json ? std::vector<std::string>() : std::vector<std::string>{"--quiet"};
}

/// Returns the mesh of the run to which a strategy belongs.
std::string mesh_of(const ConfigDocument& run, const StrategyOptions& options) {
  const std::string& path = options.file.file;
  std::ifstream file(path);
  if (!file) throw_error(ErrorCode::kInvalidArgument, "there is no strategy file {}", path);
  const mesh::StrategyText strategy =
      mesh::read_strategy({std::istreambuf_iterator<char>(file), {}}, path);
  const std::string& name = options.mesh.empty() ? strategy.mesh : options.mesh;
  std::vector<std::string> names;
  for (const auto& [known, mesh] : run.root().at("meshes").entries()) names.push_back(known);
  if (std::ranges::find(names, name) == names.end())
    throw_error(ErrorCode::kInvalidArgument, "{} has no mesh '{}', only {}; say --mesh NAME{}",
                options.run, name, fmt::join(names, ", "), did_you_mean(name, names));
  return name;
}

/// Checks the run file as if it named the strategy.
int check_strategy(const StrategyOptions& options) {
  FileOptions run = options.file;
  run.file = options.run;
  const ConfigDocument document = load(run);
  const std::string mesh = mesh_of(document, options);
  // Quotes for YAML: a quote within quotes is doubled.
  std::string path = options.file.file;
  for (std::size_t at = 0; (at = path.find('\'', at)) != std::string::npos; at += 2)
    path.insert(at, "'");
  run.overrides.push_back(fmt::format("meshes.{}.layout='{}'", mesh, path));
  // Drops the rules that the strategy replaces, unless another mesh needs them.
  if (document.root().has("sharding") && document.root().at("meshes").entries().size() == 1)
    run.overrides.emplace_back("sharding=null");
  return check_run(run, quiet_unless_json(run),
                   fmt::format("{} on mesh {} of {}", options.file.file, mesh, options.run));
}

/// Returns how the run's processes connect to the head. Throws an Error if its token is missing.
actors::ConnectionSecurity find_connection_security(const FileOptions& options) {
  if (options.head.empty() || !options.token.empty()) return options.protection;
  const auto head = actors::Address::parse(options.head);
  (void)actors::find_token(head, options.token_file, std::chrono::seconds(10));
  return actors::find_protection(head, options.token_file, options.certificate, options.insecure);
}

}  // namespace

int run_run(const FileOptions& options) {
  const NonBlockingOutput output;
  // Rejects all predictable errors before an earlier run's folder is moved and before anything
  // starts.
  const auto original = load(options);
  auto header = read_header(original);
  if (options.head.empty() && header.cluster.launcher == actors::LauncherKind::kManual)
    original.root()
        .at("cluster")
        .at("launcher")
        .fail(
            "cluster.launcher: manual means that you start the cluster: give its --head HOST:PORT, "
            "or use launcher: local");
  const actors::ChildReport report, left;
  if (const int status =
          run_app(options, header, "check",
                  {"--quiet", "--report-to", report.path(), "--resolved-to", left.path()});
      status != 0)
    return status;
  // The original is not read below this line.
  ResolvedRun resolved(left.read() + "\n");
  header = read_header(resolved.document());
  resolved.document().set_path("app", header.app);
  if (options.detach) return detach_run(options, header, resolved.document().resolved());
  if (options.insecure) actors::warn_of_insecure(Log::standard_error(LogLevel::kWarning));
  const actors::ConnectionSecurity protection = find_connection_security(options);
  const std::filesystem::path out = options.out.empty()
                                        ? std::filesystem::path("runs") / header.name
                                        : std::filesystem::path(options.out);
  RunDirectory directory = RunDirectory::prepare(
      out, options.resume_in_place ? std::optional(out) : resume_path(resolved.document()));
  if (const auto& older = directory.moved_aside()) {
    say(stdout, "{} held an older run: it is now {}\n", out.string(), older->filename().string());
    remove_partial_checkpoints(*older / directory.checkpoints().filename());
  }
  std::fflush(stdout);
  const std::filesystem::path run_file = resolved.write(directory);
  std::vector<actors::ReadFile> read_files = resolved.read_files();
  // Drops files that this machine does not have in that version; the run may have been started
  // elsewhere or earlier.
  if (!options.started_by.empty() || options.resume_in_place)
    std::erase_if(read_files, differs_here);
  const int status = actors::supervise_run(
      {std::move(header), run_file, resolved.document().origin().name, std::move(read_files),
       options.head, out, options.token_file, actors::CheckReport::parse(report.read()), protection,
       options.token, options.started_by,
       directory.moved_aside().value_or(std::filesystem::path())});
  if (status != 0 && !directory.has_results())
    if (const auto failed = directory.restore_earlier_run())
      say(stderr, "weft: no result was written, so {} is the earlier run again; logs: {}\n",
          out.string(), failed->string());
  return status;
}

int serve_run(const std::vector<std::string>& arguments) {
  const actors::RoleArguments given(arguments, {actors::kInsecureFlag});
  FileOptions options;
  options.file = given.get("config");
  options.head = given.get("head");
  options.out = given.get("out");
  options.started_by = given.get("started-by");
  options.protection = actors::connection_security_of(given);
  options.token = actors::inherited_token(given);
  return run_run(options);
}

int run_check(const FileOptions& options) { return check_run(options, {}, options.file); }

int run_strategy(const StrategyOptions& options) {
  const FileOptions& file = options.file;
  if (options.action == StrategyAction::kShow)
    return run_app(file, "plan", PlanOptions{.strategy = options.mesh}.to_arguments());
  if (options.action == StrategyAction::kCompare)
    return run_app(file, "plan",
                   PlanOptions{.layouts = options.layouts, .svg = options.svg}.to_arguments());
  const bool is_strategy = file.file.ends_with(".strategy");
  if (is_strategy && options.run.empty())
    throw_error(ErrorCode::kInvalidArgument,
                "for which run? weft strategy check {} --run cluster.yaml", file.file);
  if (is_strategy) return check_strategy(options);
  if (!options.run.empty() || !options.mesh.empty())
    throw_error(ErrorCode::kInvalidArgument,
                "--run and --mesh go with a FILE.strategy; {} is checked on all its meshes",
                file.file);
  return check_run(file, quiet_unless_json(file), file.file);
}

int run_plan(const FileOptions& options) {
  if (options.file.empty())
    throw_error(
        ErrorCode::kInvalidArgument,
        "give a run file (weft plan cluster.yaml), or --reshard with --shape, --from and --to");
  return run_app(options, "plan", PlanOptions{.programs = options.programs}.to_arguments());
}

}  // namespace weft::apps
