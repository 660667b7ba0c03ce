// weft select: starts a run of `app: select` from an input or a run file, or resumes one in a
// folder.
#include <fmt/format.h>

#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "actors/launch/cluster_config.h"
#include "apps/cli/commands.h"
#include "core/base/error.h"
#include "core/base/memory_file.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;

/// Quotes for YAML: a quote within quotes is doubled.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "''" : std::string(1, c);
  return result + "'";
}

int run_text(const std::string& text, FileOptions options) {
  const MemoryFile file("weft-select.yaml", text);
  options.file = file.path();
  return run_run(options);
}

/// Resumes the run in a folder with its original options.
int resume(const SelectOptions& options) {
  FileOptions file = options.file;
  file.file = (fs::path(options.resume) / "run.yaml").string();
  if (!fs::exists(file.file))
    throw_error(ErrorCode::kNotFound,
                "{} does not exist: {} is not the folder of a selection that can be resumed",
                file.file, options.resume);
  if (fs::exists(fs::path(options.resume) / "summary.json")) {
    std::printf("%s: the selection is complete; nothing to resume\n", options.resume.c_str());
    return 0;
  }
  file.out = options.resume;
  file.resume_in_place = true;
  return run_run(file);
}

}  // namespace

int run_select(const SelectOptions& options) {
  if (!options.resume.empty()) {
    if (!options.input.empty() || !options.budget.empty() || !options.file.overrides.empty())
      throw_error(
          ErrorCode::kInvalidArgument,
          "--resume continues {} with its original options; remove INPUT, --budget and --set",
          options.resume);
    return resume(options);
  }
  if (options.input.empty())
    throw_error(ErrorCode::kInvalidArgument,
                "an input is missing: weft select INPUT --budget 10%, or weft select select.yaml");
  const fs::path programs = actors::program_directory();
  if (!fs::exists(programs / "select"))
    throw_error(ErrorCode::kNotFound, "{} does not exist{}", (programs / "select").string(),
                actors::build_hint(programs, "weft_apps_select"));
  FileOptions file = options.file;
  if (!options.budget.empty()) file.overrides.push_back("selection.budget=" + options.budget);
  if (options.input.ends_with(".yaml") || options.input.ends_with(".yml")) {
    file.file = options.input;
    return run_run(file);
  }
  std::string name = fs::path(options.input).lexically_normal().filename().stem().string();
  if (name.empty() || name == ".") name = "chosen";
  file.folder = fs::current_path().string();
  // The run's name becomes part of a path.
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-') c = '-';
  return run_text(fmt::format("name: {}\napp: select\ncluster: {{hosts: [{{name: worker0, devices: "
                              "{}}}]}}\ninput: {{path: {}}}\nscratch: scratch\n",
                              "select-" + name, options.workers, quoted(options.input)),
                  file);
}

}  // namespace weft::apps
