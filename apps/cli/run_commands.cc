// weft run, weft check, weft plan.
#include "actors/launch/run_supervisor.h"
#include "apps/cli/commands.h"
#include "core/config/config_document.h"

namespace weft::apps {
namespace {

int run_app(const FileOptions& options, const std::string& role) {
  const auto document = ConfigDocument::load(options.file, options.overrides);
  const auto header = actors::parse_run_header(document, options.file, actors::program_directory());
  return actors::run_app_role(header.app, role, options.file, options.overrides, options.json);
}

}  // namespace

int run_run(const FileOptions& options) {
  return actors::run_and_supervise({options.file, options.overrides, options.head, options.out});
}
int run_check(const FileOptions& options) { return run_app(options, "check"); }
int run_plan(const FileOptions& options) { return run_app(options, "plan"); }

}  // namespace weft::apps
