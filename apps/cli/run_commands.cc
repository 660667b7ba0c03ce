// weft run, weft check, weft plan.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "actors/launch/run_supervisor.h"
#include "actors/launch/token.h"
#include "apps/cli/commands.h"
#include "apps/run_directory/run_directory.h"
#include "core/base/error.h"
#include "core/config/config_document.h"

namespace weft::apps {
namespace {

int run_app(const FileOptions& options, const std::string& role) {
  const auto document = ConfigDocument::load(options.file, options.overrides);
  const auto header = actors::parse_run_header(document, options.file, actors::program_directory());
  return actors::run_app_role(header.app, role, options.file, options.overrides, options.json);
}

/// The checkpoint to resume from, if the run file or --set names one: a run inside the folder of that checkpoint goes on in
/// place.
std::optional<std::filesystem::path> resume_path(const ConfigDocument& document) {
  const auto checkpoint = document.root().find("checkpoint");
  const auto resume = checkpoint ? checkpoint->find("resume") : std::nullopt;
  if (!resume) return std::nullopt;
  return resume->as<std::string>();
}

}  // namespace

int run_run(const FileOptions& options) {
  // Everything that can be known beforehand is refused before an older run's folder is moved and before anything starts.
  if (const int status = run_app(options, "check"); status != 0) return status;
  const auto document = ConfigDocument::load(options.file, options.overrides);
  const auto header = actors::parse_run_header(document, options.file, actors::program_directory());
  if (!options.head.empty()) (void)actors::find_token(Address::parse(options.head), options.token_file, std::chrono::seconds(10));
  const std::filesystem::path out =
      options.out.empty() ? std::filesystem::path("runs") / header.name : std::filesystem::path(options.out);
  const RunDirectory directory = RunDirectory::prepare(out, resume_path(document));
  if (directory.moved_aside())
    std::printf("%s held an older run: it is now %s\n", out.c_str(), directory.moved_aside()->filename().c_str());
  std::fflush(stdout);
  return actors::run_and_supervise({options.file, options.overrides, options.head, out, options.token_file});
}

int run_check(const FileOptions& options) { return run_app(options, "check"); }
int run_plan(const FileOptions& options) {
  if (options.file.empty())
    throw_error(ErrorCode::kInvalidArgument,
                "give a run file (weft plan cluster.yaml), or --reshard with --shape, --from and --to");
  return run_app(options, "plan");
}

}  // namespace weft::apps
