#include "apps/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/checkpoint/internal/checkpoint_files.h"
#include "apps/checkpoint/safetensors.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

constexpr int kFormat = 1;
constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";

/// Renames `from` to `to`. If `to` exists, both change names in one step; where the file system cannot do that, `to` keeps a name
/// under which it still counts until `from` has taken its place. So at no moment neither is there.
void put_in_place(const fs::path& from, const fs::path& to, ReplaceBy replace_by, const CheckpointStore::Progress& done) {
  const bool exchange = replace_by == ReplaceBy::kExchange && fs::exists(to);
  if (exchange || !fs::exists(to)) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), exchange ? RENAME_EXCHANGE : 0) == 0) return;
    if (!exchange || (errno != EINVAL && errno != ENOSYS))
      throw_error(ErrorCode::kUnavailable, "cannot rename {} to {}: {}", from.string(), to.string(), std::strerror(errno));
  }
  fs::path replaced = to;
  fs::rename(to, replaced += kReplacedSuffix);
  if (done) done("old one of this step renamed");
  fs::rename(from, to);
  if (done) done("new one of this step renamed");
  fs::rename(replaced, from);  // to be removed: half a checkpoint must not look like one
}

void write_description(const fs::path& path, const Checkpoint& checkpoint, const std::optional<ParentCheckpoint>& parent) {
  const auto parent_json =
      parent ? nlohmann::ordered_json{{"step", parent->step}, {"sha256", parent->sha256}} : nlohmann::ordered_json();
  const nlohmann::ordered_json description = {
      {"format", kFormat},
      {"step", checkpoint.step},
      {"seed", checkpoint.seed},
      {"model_digest", checkpoint.model_digest},
      {"parent", parent_json},
      {"files",
       {{kModel, sha256_file(path.parent_path() / kModel)}, {kOptimizer, sha256_file(path.parent_path() / kOptimizer)}}}};
  std::ofstream out(path);
  out << description.dump(2) << "\n";
  out.close();
  if (!out) throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", path.string(), std::strerror(errno));
  flush_to_disk(path);
}

/// What checkpoint.json says, after both files have proved to have the hashes that it states. Without parameters.
Checkpoint read_description(const fs::path& folder) {
  std::ifstream in(folder / kDescriptionFile);
  if (!in) throw_error(ErrorCode::kNotFound, "there is no checkpoint in {}", folder.string());
  try {
    const auto description = nlohmann::json::parse(in);
    if (const int format = description.at("format"); format != kFormat)
      throw_error(ErrorCode::kIncompatible, "the checkpoint {} has format {}, this program reads format {}", folder.string(),
                  format, kFormat);
    for (const char* file : {kModel, kOptimizer})
      if (sha256_file(folder / file) != description.at("files").at(file))
        throw_error(ErrorCode::kDataLoss, "{} does not have the hash that its checkpoint.json states; resume from an older one",
                    (folder / file).string());
    Checkpoint checkpoint;
    checkpoint.step = description.at("step");
    checkpoint.seed = description.at("seed");
    checkpoint.model_digest = description.at("model_digest");
    return checkpoint;
  } catch (const nlohmann::json::exception& error) {
    throw_error(ErrorCode::kDataLoss, "{} is damaged: {}; resume from an older checkpoint", (folder / kDescriptionFile).string(),
                error.what());
  }
}

/// "the second moment of 'h0.qkv.weight'": the first tensor with a value that is not finite; empty if there is none.
std::string not_finite(const std::vector<ParameterState>& parameters) {
  const auto finite = [](const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
  };
  for (const ParameterState& p : parameters) {
    if (!finite(p.values)) return fmt::format("parameter '{}'", p.name);
    if (!finite(p.first_moment)) return fmt::format("the first moment of '{}'", p.name);
    if (!finite(p.second_moment)) return fmt::format("the second moment of '{}'", p.name);
  }
  return "";
}

/// What a disk that refused has taken so far: it would keep the disk full.
void remove_half(const fs::path& building) {
  std::error_code ignored;
  fs::remove_all(building, ignored);
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path folder, int keep, Progress progress, ReplaceBy replace_by)
    : folder_(std::move(folder)), keep_(std::max(1, keep)), progress_(std::move(progress)), replace_by_(replace_by) {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) throw_error(ErrorCode::kUnavailable, "cannot create {}: {}", folder_.string(), failed.message());
  // Those that a crash left under a name in between: back in place where the new one never came, else removed with the
  // unfinished.
  std::vector<fs::path> replaced;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.path().filename().string().ends_with(kReplacedSuffix)) replaced.push_back(entry.path());
  for (const fs::path& path : replaced) {
    const std::string name = path.filename().string();
    const fs::path place = folder_ / name.substr(0, name.size() - kReplacedSuffix.size());
    const bool comes_back = is_complete(path) && !is_complete(place);
    fs::rename(path, comes_back ? place : folder_ / fmt::format("{}{}", kUnfinishedPrefix, name), failed);
  }
  std::vector<fs::path> unfinished;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.path().filename().string().starts_with(kUnfinishedPrefix)) unfinished.push_back(entry.path());
  for (const fs::path& path : unfinished) fs::remove_all(path);
}

void CheckpointStore::done(std::string_view point) const {
  if (progress_) progress_(point);
}

fs::path CheckpointStore::write(const Checkpoint& checkpoint, OldOnes old_ones) {
  if (const std::string bad = not_finite(checkpoint.parameters); !bad.empty())
    throw_error(ErrorCode::kFailedPrecondition, "{} is not finite after step {}", bad, checkpoint.step);
  const std::string name = checkpoint_name(checkpoint.step);
  const fs::path building = folder_ / fmt::format("{}{}", kUnfinishedPrefix, name);
  fs::path final_path = folder_ / name;
  try {
    fs::remove_all(building);
    fs::create_directory(building);
    done("folder created");
    std::vector<TensorView> parameters;
    std::vector<TensorView> moments;
    for (const ParameterState& p : checkpoint.parameters) {
      parameters.push_back({p.name, p.shape, p.values});
      moments.push_back({"first_moment." + p.name, p.shape, p.first_moment});
      moments.push_back({"second_moment." + p.name, p.shape, p.second_moment});
    }
    write_safetensors(building / kModel, parameters, {{"format", "weft"}});
    done("model written");
    write_safetensors(building / kOptimizer, moments, {{"format", "weft"}});
    done("optimizer written");
    write_description(building / kDescriptionFile, checkpoint, parent_);
    done("description written");
    flush_to_disk(building);
    put_in_place(building, final_path, replace_by_, progress_);
    done("renamed");
    parent_ = identify(final_path);
    flush_to_disk(folder_);
    const fs::path link = folder_ / fmt::format("{}{}", kUnfinishedPrefix, kLatestLink);
    fs::remove(link);
    fs::create_symlink(name, link);
    done("link created");
    fs::rename(link, folder_ / kLatestLink);
    done("link renamed");
    flush_to_disk(folder_);
    if (old_ones == OldOnes::kRemove) remove_old();
    done("old ones removed");
  } catch (const fs::filesystem_error& error) {
    remove_half(building);
    throw_error(ErrorCode::kUnavailable, "cannot write the checkpoint {}: {}", final_path.string(), error.code().message());
  } catch (...) {
    remove_half(building);
    throw;
  }
  return final_path;
}

void CheckpointStore::remove_old() const {
  std::vector<fs::path> all = checkpoints_in(folder_);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep_) < all.size(); ++i) {
    // Renamed first: half a checkpoint must not look like one.
    const fs::path doomed = folder_ / fmt::format("{}{}", kUnfinishedPrefix, all[i].filename().string());
    fs::rename(all[i], doomed);
    done("old one renamed");
    fs::remove_all(doomed);
  }
  std::error_code ignored;
  std::vector<fs::path> replaced;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.path().filename().string().starts_with(kUnfinishedPrefix)) replaced.push_back(entry.path());
  for (const fs::path& path : replaced) fs::remove_all(path, ignored);
}

std::optional<fs::path> CheckpointStore::newest_up_to(std::int64_t step) const {
  const std::vector<fs::path> all = checkpoints_in(folder_);
  const auto newer = std::ranges::upper_bound(all, folder_ / checkpoint_name(step));
  if (newer == all.begin()) return std::nullopt;
  return *std::prev(newer);
}

fs::path find_checkpoint(const fs::path& path) {
  if (is_complete(path)) return fs::canonical(path);
  const fs::path folder = path.filename() == kLatestLink ? path.parent_path() : path;
  // The newest counts, not the link: a crash may have come between the two.
  for (const fs::path& candidate : {folder, folder / "checkpoints"})
    if (const auto head = head_of_branch(candidate)) return fs::canonical(*head);
  throw_error(ErrorCode::kNotFound,
              "there is no complete checkpoint at {}: expected a checkpoint's folder (with {}), a folder of "
              "them, or a run's folder",
              path.string(), kDescriptionFile);
}

Checkpoint read_checkpoint(const fs::path& path) {
  Checkpoint checkpoint = read_description(path);
  const SafetensorsFile model(path / kModel);
  const SafetensorsFile optimizer(path / kOptimizer);
  const auto copy = [](std::span<const float> values) { return std::vector<float>(values.begin(), values.end()); };
  const auto moment = [&](const std::string& name, const TensorView& parameter) {
    const TensorView& found = optimizer.tensor(name + parameter.name);
    if (found.shape != parameter.shape)
      throw_error(ErrorCode::kDataLoss, "{}: {} does not have the shape of its parameter", (path / kOptimizer).string(),
                  found.name);
    return copy(found.values);
  };
  for (const TensorView& tensor : model.tensors())
    checkpoint.parameters.push_back({.name = tensor.name,
                                     .shape = tensor.shape,
                                     .values = copy(tensor.values),
                                     .first_moment = moment("first_moment.", tensor),
                                     .second_moment = moment("second_moment.", tensor)});
  if (const std::string bad = not_finite(checkpoint.parameters); !bad.empty())
    throw_error(ErrorCode::kDataLoss,
                "the checkpoint {} is of a run that had diverged: {} is not finite; resume from an older one", path.string(),
                bad);
  return checkpoint;
}

}  // namespace weft::apps
