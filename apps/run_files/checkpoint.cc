#include "apps/run_files/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/run_files/internal/checkpoint_files.h"
#include "apps/run_files/safetensors.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

constexpr int kFormat = 1;
constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";

/// Renames `from` to `to`. If `to` exists, exchanges the two names atomically. If the file system
/// cannot do that, first renames `to` to a name that still counts as a checkpoint. A complete
/// checkpoint exists at every moment.
void replace_atomically(const fs::path& from, const fs::path& to, ReplaceMethod replace_by,
                        const CheckpointStore::Progress& done) {
  const bool exchange = replace_by == ReplaceMethod::kExchange && fs::exists(to);
  if (exchange || !fs::exists(to)) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), exchange ? RENAME_EXCHANGE : 0) ==
        0)
      return;
    if (!exchange || (errno != EINVAL && errno != ENOSYS))
      throw_error(ErrorCode::kUnavailable, "cannot rename {} to {}: {}", from.string(), to.string(),
                  std::strerror(errno));
  }
  fs::path replaced = to;
  fs::rename(to, replaced += kReplacedSuffix);
  if (done) done("old one of this step renamed");
  fs::rename(from, to);
  if (done) done("new one of this step renamed");
  fs::rename(replaced, from);  // marks it for removal: a partly deleted checkpoint must not count
}

void write_description(const fs::path& path, const CheckpointMetadata& checkpoint,
                       const std::optional<ParentCheckpoint>& parent) {
  const auto parent_json =
      parent ? nlohmann::ordered_json{{"step", parent->step}, {"sha256", parent->sha256}}
             : nlohmann::ordered_json();
  const nlohmann::ordered_json description = {
      {"format", kFormat},
      {"step", checkpoint.step},
      {"seed", checkpoint.seed},
      {"model_digest", checkpoint.model_digest},
      {"parent", parent_json},
      {"files",
       {{kModel, sha256_file(path.parent_path() / kModel)},
        {kOptimizer, sha256_file(path.parent_path() / kOptimizer)}}}};
  std::ofstream out(path);
  out << description.dump(2) << "\n";
  out.close();
  if (!out)
    throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", path.string(),
                std::strerror(errno));
  flush_to_disk(path);
}

/// Returns the contents of checkpoint.json, without parameters, after verifying the hashes of both
/// files.
CheckpointMetadata read_description(const fs::path& folder) {
  std::ifstream in(folder / kDescriptionFile);
  if (!in) throw_error(ErrorCode::kNotFound, "there is no checkpoint in {}", folder.string());
  try {
    const auto description = nlohmann::json::parse(in);
    if (const int format = description.at("format"); format != kFormat)
      throw_error(ErrorCode::kIncompatible,
                  "the checkpoint {} has format {}, this program reads format {}", folder.string(),
                  format, kFormat);
    for (const char* file : {kModel, kOptimizer})
      if (sha256_file(folder / file) != description.at("files").at(file))
        throw_error(
            ErrorCode::kDataLoss,
            "{} does not have the hash that its checkpoint.json states; resume from an older one",
            (folder / file).string());
    CheckpointMetadata checkpoint;
    checkpoint.step = description.at("step");
    checkpoint.seed = description.at("seed");
    checkpoint.model_digest = description.at("model_digest");
    return checkpoint;
  } catch (const nlohmann::json::exception&) {
    throw_error(ErrorCode::kDataLoss,
                "{} does not describe a checkpoint, so it is damaged; resume from an older "
                "checkpoint",
                (folder / kDescriptionFile).string());
  }
}

/// Returns "parameter 'h0.qkv.weight'", "the second moment of 'h0.qkv.weight'".
std::string name_of(StateBlock block, const std::string& parameter) {
  switch (block) {
    case StateBlock::kValue: return fmt::format("parameter '{}'", parameter);
    case StateBlock::kFirstMoment: return fmt::format("the first moment of '{}'", parameter);
    case StateBlock::kSecondMoment: return fmt::format("the second moment of '{}'", parameter);
  }
  return parameter;
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

/// Returns one of the three vectors of a parameter in memory.
template <typename State>
auto& block_of(State& state, StateBlock block) {
  return block == StateBlock::kValue         ? state.values
         : block == StateBlock::kFirstMoment ? state.first_moment
                                             : state.second_moment;
}

constexpr std::array kBlocks{StateBlock::kValue, StateBlock::kFirstMoment,
                             StateBlock::kSecondMoment};

/// Lists the tensors of the optimizer's file. The two moments of a parameter follow each other.
ParameterList moments_of(const ParameterList& parameters) {
  ParameterList moments;
  for (const TensorDeclaration& p : parameters) {
    moments.push_back({"first_moment." + p.name, p.shape});
    moments.push_back({"second_moment." + p.name, p.shape});
  }
  return moments;
}

/// Removes a partly written checkpoint, which would keep a full disk full.
void remove_partial(const fs::path& building) {
  std::error_code ignored;
  fs::remove_all(building, ignored);
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path folder, int keep, Progress progress,
                                 ReplaceMethod replace_by)
    : folder_(std::move(folder)),
      keep_(std::max(1, keep)),
      progress_(std::move(progress)),
      replace_by_(replace_by) {
  make_folders(folder_);
  // Restores replaced checkpoints of a crashed process if the new checkpoint is incomplete. Marks
  // the others as unfinished.
  std::vector<fs::path> replaced;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.path().filename().string().ends_with(kReplacedSuffix))
      replaced.push_back(entry.path());
  for (const fs::path& path : replaced) {
    std::error_code ignored;
    const std::string name = path.filename().string();
    const fs::path place = folder_ / name.substr(0, name.size() - kReplacedSuffix.size());
    const bool comes_back = is_complete(path) && !is_complete(place);
    fs::rename(path, comes_back ? place : folder_ / fmt::format("{}{}", kUnfinishedPrefix, name),
               ignored);
  }
  std::vector<fs::path> unfinished;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.path().filename().string().starts_with(kUnfinishedPrefix))
      unfinished.push_back(entry.path());
  for (const fs::path& path : unfinished) fs::remove_all(path);
}

void CheckpointStore::done(std::string_view point) const {
  if (progress_) progress_(point);
}

fs::path CheckpointStore::write(const Checkpoint& checkpoint, OldCheckpoints old_ones) {
  CheckpointMetadata heading{checkpoint.step, checkpoint.seed, checkpoint.model_digest, {}};
  for (const ParameterState& p : checkpoint.parameters)
    heading.parameters.push_back({p.name, p.shape});
  const auto fill = [&](const ReadStateSlice& take) {
    for (std::size_t i = 0; i < checkpoint.parameters.size(); ++i)
      for (const StateBlock block : kBlocks)
        take({i, block, 0}, block_of(checkpoint.parameters[i], block));
  };
  return write(heading, fill, old_ones);
}

fs::path CheckpointStore::write(const CheckpointMetadata& heading,
                                const std::function<void(const ReadStateSlice&)>& fill,
                                OldCheckpoints old_ones) {
  const std::string name = checkpoint_name(heading.step);
  const fs::path building = folder_ / fmt::format("{}{}", kUnfinishedPrefix, name);
  fs::path final_path = folder_ / name;
  try {
    fs::remove_all(building);
    fs::create_directory(building);
    done("folder created");
    SafetensorsWriter model(building / kModel, heading.parameters, {{"format", "weft"}});
    SafetensorsWriter optimizer(building / kOptimizer, moments_of(heading.parameters),
                                {{"format", "weft"}});
    done("room taken");
    fill([&](const StateSlice& piece, std::span<const float> values) {
      if (!all_finite(values))
        throw_error(ErrorCode::kFailedPrecondition, "{} is not finite after step {}",
                    name_of(piece.block, heading.parameters.at(piece.parameter).name),
                    heading.step);
      if (piece.block == StateBlock::kValue) model.write(piece.parameter, piece.first, values);
      else
        optimizer.write(2 * piece.parameter + (piece.block == StateBlock::kSecondMoment ? 1 : 0),
                        piece.first, values);
    });
    model.flush();
    done("model written");
    optimizer.flush();
    done("optimizer written");
    write_description(building / kDescriptionFile, heading, parent_);
    done("description written");
    flush_to_disk(building);
    replace_atomically(building, final_path, replace_by_, progress_);
    done("renamed");
    parent_ = checkpoint_identity(final_path);
    flush_to_disk(folder_);
    point_latest_at(folder_, name, progress_);
    flush_to_disk(folder_);
    if (old_ones == OldCheckpoints::kRemove) remove_old();
    done("old ones removed");
  } catch (const fs::filesystem_error& error) {
    remove_partial(building);
    throw_error(ErrorCode::kUnavailable, "cannot write the checkpoint {}: {}", final_path.string(),
                error.code().message());
  } catch (...) {
    remove_partial(building);
    throw;
  }
  return final_path;
}

void point_latest_at(const fs::path& folder, const std::string& name,
                     const CheckpointStore::Progress& progress, const MakeLink& make_link) {
  const auto done = [&](std::string_view point) {
    if (progress) progress(point);
  };
  const fs::path link = folder / fmt::format("{}{}", kUnfinishedPrefix, kLatestLink);
  fs::remove(link);
  try {
    if (make_link) make_link(name, link);
    else fs::create_symlink(name, link);
  } catch (const fs::filesystem_error& error) {
    // Error codes of exFAT, some CIFS and 9p.
    constexpr std::array kNoLinks = {EPERM, EOPNOTSUPP, ENOSYS, EINVAL};
    if (std::ranges::find(kNoLinks, error.code().value()) == kNoLinks.end()) throw;
    write_durably(link, name + "\n");
  }
  done("link created");
  fs::rename(link, folder / kLatestLink);
  done("link renamed");
}

void CheckpointStore::remove_old() const {
  std::vector<fs::path> all = checkpoints_in(folder_);
  for (std::size_t i = 0; i + keep_ < all.size(); ++i) {
    // Renames first: a partly deleted checkpoint must not count.
    const fs::path doomed =
        folder_ / fmt::format("{}{}", kUnfinishedPrefix, all[i].filename().string());
    fs::rename(all[i], doomed);
    done("old one renamed");
    fs::remove_all(doomed);
  }
  std::error_code ignored;
  std::vector<fs::path> replaced;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.path().filename().string().starts_with(kUnfinishedPrefix))
      replaced.push_back(entry.path());
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
  // Uses the newest checkpoint, not the link: a crash may have prevented the link's update.
  for (const fs::path& candidate : {folder, folder / "checkpoints"})
    if (const auto head = head_of_branch(candidate)) return fs::canonical(*head);
  throw_error(ErrorCode::kNotFound,
              "there is no complete checkpoint at {}: expected a checkpoint's folder (with {}), a "
              "folder of "
              "them, or a run's folder",
              path.string(), kDescriptionFile);
}

fs::path model_file(const fs::path& checkpoint) { return checkpoint / kModel; }

StoredCheckpoint::StoredCheckpoint(const fs::path& checkpoint)
    : path_(checkpoint),
      heading_(read_description(checkpoint)),
      model_(checkpoint / kModel),
      optimizer_(checkpoint / kOptimizer) {
  std::map<std::string_view, const TensorView*> moments;
  for (const TensorView& tensor : optimizer_.tensors()) moments[tensor.name] = &tensor;
  const auto moment = [&](const std::string& name, const TensorView& parameter) {
    const auto found = moments.find(name);
    if (found == moments.end())
      throw_error(ErrorCode::kDataLoss, "{} has no tensor '{}'", (path_ / kOptimizer).string(),
                  name);
    if (found->second->shape != parameter.shape)
      throw_error(ErrorCode::kDataLoss, "{}: {} does not have the shape of its parameter",
                  (path_ / kOptimizer).string(), name);
    return found->second;
  };
  for (const TensorView& tensor : model_.tensors()) {
    heading_.parameters.push_back({tensor.name, tensor.shape});
    first_moments_.push_back(moment("first_moment." + tensor.name, tensor));
    second_moments_.push_back(moment("second_moment." + tensor.name, tensor));
  }
}

void StoredCheckpoint::read(const StateSlice& piece, std::span<float> values) const {
  const TensorView& tensor =
      piece.block == StateBlock::kValue         ? model_.tensors().at(piece.parameter)
      : piece.block == StateBlock::kFirstMoment ? *first_moments_.at(piece.parameter)
                                                : *second_moments_.at(piece.parameter);
  const std::span<const float> stored = tensor.values.subspan(piece.first, values.size());
  std::ranges::copy(stored, values.begin());
  (piece.block == StateBlock::kValue ? model_ : optimizer_).release_pages(stored);
  if (!all_finite(values))
    throw_error(ErrorCode::kDataLoss,
                "the checkpoint {} contains a value that is not finite ({}): training had "
                "diverged; resume from an older one",
                path_.string(), name_of(piece.block, heading_.parameters.at(piece.parameter).name));
}

std::vector<TensorView> views_of(const std::vector<ParameterState>& parameters) {
  std::vector<TensorView> views;
  for (const ParameterState& p : parameters) views.push_back({p.name, p.shape, p.values});
  return views;
}

Checkpoint read_checkpoint(const fs::path& path) {
  const StoredCheckpoint stored(path);
  Checkpoint checkpoint{
      stored.heading().step, stored.heading().seed, stored.heading().model_digest, {}};
  for (std::size_t i = 0; i < stored.heading().parameters.size(); ++i) {
    const auto& [name, shape] = stored.heading().parameters[i];
    ParameterState& state = checkpoint.parameters.emplace_back();
    state.name = name;
    state.shape = shape;
    for (const StateBlock block : kBlocks) {
      block_of(state, block).resize(num_elements(shape));
      stored.read({i, block, 0}, block_of(state, block));
    }
  }
  return checkpoint;
}

}  // namespace weft::apps
