#include "apps/cli/resolved_run.h"

#include <exception>
#include <fstream>
#include <iterator>
#include <span>

#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/sha256.h"
#include "core/base/terminal.h"

namespace weft::apps {
namespace fs = std::filesystem;

ResolvedRun::ResolvedRun(const std::string& text)
    : document_(ConfigDocument::parse(text, "run.yaml")) {
  for (ConfigDocument::InputFileValue& place : document_.input_files()) {
    std::ifstream file(place.file, std::ios::binary);
    if (!file)
      throw_error(ErrorCode::kInvalidConfig, "{}: {}: cannot read {}", document_.origin().name,
                  place.key, place.file.string());
    const fs::perms others = fs::status(place.file).permissions() & fs::perms::others_read;
    inputs_.push_back(
        {std::move(place), {std::istreambuf_iterator<char>(file), {}}, others == fs::perms::none});
  }
}

std::vector<actors::ReadFile> ResolvedRun::read_files() const {
  const ConfigOrigin& origin = document_.origin();
  std::vector<actors::ReadFile> files = {{origin.name, origin.file, origin.sha256}};
  for (const InputCopy& input : inputs_)
    files.push_back({input.place.file.string(), input.place.file,
                     sha256(std::as_bytes(std::span(input.content)))});
  return files;
}

std::filesystem::path ResolvedRun::write(const RunDirectory& directory) {
  try {
    write_to_disk(directory);
    return directory.config();
  } catch (const std::exception&) {
    say(stderr, "weft: {}; the run goes on with its run file in memory alone\n",
        current_error().message());
    return keep_in_memory();
  }
}

void ResolvedRun::write_to_disk(const RunDirectory& directory) {
  const ::mode_t mode = document_.origin().is_private ? 0600 : 0666;
  make_folders(directory.inputs());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    // Keeps the file name, which messages use for schedules and strategies.
    const fs::path folder = directory.inputs() / std::to_string(i);
    make_folders(folder);
    const fs::path copy = folder / inputs_[i].place.file.filename();
    write_atomically(copy, inputs_[i].content, inputs_[i].is_private ? 0600 : mode);
    document_.set_path(inputs_[i].place.key, copy);
  }
  write_atomically(directory.config(), document_.resolved(), mode);
}

fs::path ResolvedRun::keep_in_memory() {
  for (const InputCopy& input : inputs_)
    document_.set_path(input.place.key, in_memory_.emplace_back("input", input.content).path());
  return in_memory_.emplace_back("run.yaml", document_.resolved()).path();
}

}  // namespace weft::apps
