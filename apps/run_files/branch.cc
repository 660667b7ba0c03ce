#include "apps/run_files/branch.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/run_files/checkpoint.h"
#include "apps/run_files/internal/checkpoint_files.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

constexpr const char* kBranchFile = "branch.json";

/// Contents of branch.json: the checkpoint from which the run of a folder resumed.
struct BranchRecord {
  /// Path relative to the folder: "step-00000004", "../abandoned.1/checkpoints/step-00000008".
  fs::path from;
  fs::path aside;  ///< Relative path to which the abandoned branch was moved; empty if it was not
                   ///< moved.
  /// True after everything has moved. Before that, the folder may hold checkpoints of both
  /// branches.
  bool begun = false;
};

bool has(const nlohmann::json& json, const char* key, bool (nlohmann::json::*is)() const noexcept) {
  return json.is_object() && json.contains(key) && (json[key].*is)();
}

std::optional<BranchRecord> read_record(const fs::path& folder) {
  std::ifstream in(folder / kBranchFile);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!has(json, "from", &nlohmann::json::is_string) ||
      !has(json, "aside", &nlohmann::json::is_string) ||
      !has(json, "begun", &nlohmann::json::is_boolean))
    return std::nullopt;
  return BranchRecord{json["from"].get<std::string>(), json["aside"].get<std::string>(),
                      json["begun"].get<bool>()};
}

void write_record(const fs::path& folder, const BranchRecord& record) {
  const nlohmann::ordered_json json = {
      {"from", record.from.string()}, {"aside", record.aside.string()}, {"begun", record.begun}};
  write_durably(folder / kBranchFile, json.dump(2) + "\n");
}

/// Returns the checkpoints in `folder` that are not ancestors of `from`.
std::vector<fs::path> checkpoints_off_branch(const fs::path& folder, const fs::path& from) {
  std::vector<fs::path> ancestors = {from};
  for (auto parent = parent_of(from); parent;) {
    std::optional<fs::path> found;
    for (const fs::path& place : {folder, from.parent_path()}) {
      const fs::path candidate = place / checkpoint_name(parent->step);
      if (is_complete(candidate) && checkpoint_identity(candidate) == *parent) found = candidate;
    }
    if (!found) break;  // parent removed as old, or in another run's folder
    ancestors.push_back(*found);
    parent = parent_of(*found);
  }
  const std::int64_t oldest = step_of(ancestors.back());
  const bool same_folder = from.parent_path() == folder;
  std::vector<fs::path> others;
  for (const fs::path& checkpoint : checkpoints_in(folder)) {
    // Checkpoints older than the oldest known ancestor count as ancestors if `from` is beside them.
    if (same_folder && step_of(checkpoint) < oldest) continue;
    if (std::ranges::find(ancestors, checkpoint) == ancestors.end()) others.push_back(checkpoint);
  }
  return others;
}

/// Points `latest` at `from` if that is in `folder`; removes the link otherwise.
void point_latest_at_parent(const fs::path& folder, const fs::path& from) {
  if (from.parent_path() == folder) point_latest_at(folder, from.filename().string());
  else fs::remove(folder / kLatestLink);
}

/// Returns the target folder of a move for the same `record` that a crash interrupted, if there is
/// one.
std::optional<fs::path> interrupted_move(const fs::path& folder, const BranchRecord& record) {
  const auto earlier = read_record(folder);
  if (!earlier || earlier->begun || earlier->from != record.from || earlier->aside.empty())
    return std::nullopt;
  return (folder / earlier->aside).lexically_normal();
}

void tell(const BranchMove& move, std::string_view point) {
  if (move.progress) move.progress(point);
}

/// Moves the checkpoints in `folder` that do not lead to `from` to `aside`, and copies the metrics
/// there.
void move_aside(const BranchMove& move, const fs::path& folder, const fs::path& from,
                const fs::path& aside) {
  make_folders(aside / folder.filename());
  flush_to_disk(aside.parent_path());
  tell(move, "folder created");
  if (move.keep_metrics && move.metrics_differ) move.keep_metrics(aside);
  tell(move, "metrics kept");
  for (const fs::path& checkpoint : checkpoints_off_branch(folder, from)) {
    fs::rename(checkpoint, aside / folder.filename() / checkpoint.filename());
    tell(move, "checkpoint moved");
  }
  point_latest_at_parent(folder, from);
  flush_to_disk(aside / folder.filename());
  flush_to_disk(folder);
}

}  // namespace

ParentCheckpoint checkpoint_identity(const fs::path& checkpoint) {
  return {step_of(checkpoint), sha256_file(checkpoint / kDescriptionFile)};
}

std::optional<ParentCheckpoint> parent_of(const fs::path& checkpoint) {
  std::ifstream in(checkpoint / kDescriptionFile);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!has(json, "parent", &nlohmann::json::is_object)) return std::nullopt;
  const auto& parent = json["parent"];
  if (!has(parent, "step", &nlohmann::json::is_number_integer) ||
      !has(parent, "sha256", &nlohmann::json::is_string))
    return std::nullopt;
  return ParentCheckpoint{parent["step"].get<std::int64_t>(), parent["sha256"].get<std::string>()};
}

std::optional<fs::path> begin_branch(const BranchMove& move) {
  try {
    const fs::path folder = fs::canonical(move.folder), from = fs::canonical(move.from);
    BranchRecord record{from.lexically_relative(folder), {}, false};
    const std::optional<fs::path> interrupted = interrupted_move(folder, record);
    const bool moves =
        interrupted || move.metrics_differ || !checkpoints_off_branch(folder, from).empty();
    const fs::path aside = interrupted ? *interrupted : fs::weakly_canonical(move.move_target);
    if (moves) record.aside = aside.lexically_relative(folder);
    write_record(folder, record);
    tell(move, "intent written");
    if (moves) move_aside(move, folder, from, aside);
    if (move.install_metrics) move.install_metrics();
    tell(move, "metrics taken over");
    record.begun = true;
    write_record(folder, record);
    tell(move, "branch begun");
    return moves ? std::optional(aside) : std::nullopt;
  } catch (const fs::filesystem_error& error) {
    throw_error(ErrorCode::kUnavailable, "cannot move later checkpoints from {} to {}: {}",
                move.folder.string(), move.move_target.string(), error.code().message());
  }
}

std::optional<fs::path> head_of_branch(const fs::path& folder) {
  const std::vector<fs::path> all = checkpoints_in(folder);
  const auto record = read_record(folder);
  const fs::path from = record ? folder / record->from : fs::path();
  if (record && is_complete(from) &&
      (!record->begun || all.empty() || step_of(all.back()) < step_of(from)))
    return from;
  if (all.empty()) return std::nullopt;
  return all.back();
}

}  // namespace weft::apps
