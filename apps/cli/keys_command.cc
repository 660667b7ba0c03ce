// weft keys [APP]: executes the app's own executable, which has the readers of the keys.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "actors/launch/cluster_config.h"
#include "apps/cli/commands.h"
#include "core/base/error.h"
#include "core/config/config_document.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;

/// Returns the executable of "gpt", of "./my_app", or of a run file's app.
fs::path executable_of(const std::string& app) {
  if (app.ends_with(".yaml") || app.ends_with(".yml")) {
    const ConfigDocument document = ConfigDocument::load(app);
    const ConfigNode named = document.root().at("app");
    const auto name = named.as<std::string>();
    return name.find('/') == std::string::npos ? actors::program_directory() / name
                                               : named.as_path();
  }
  return app.find('/') == std::string::npos ? actors::program_directory() / app : fs::absolute(app);
}

}  // namespace

int run_keys(const KeysOptions& options) {
  const fs::path app = executable_of(options.app);
  std::vector<std::string> words = {app.string(), "--weft-role=keys"};
  if (!options.under.empty()) words.insert(words.end(), {"--under", options.under});
  if (options.json) words.emplace_back("--json");
  if (options.schema) words.emplace_back("--schema");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(app.c_str(), argv.data());
  if (errno == ENOENT)
    throw_error(ErrorCode::kNotFound, "the app {} does not exist{}", app.string(),
                actors::build_hint(app.parent_path(), "weft_apps_" + app.filename().string()));
  throw_error(ErrorCode::kNotFound, "cannot run {}: {}", app.string(), ::strerror(errno));
}

}  // namespace weft::apps
