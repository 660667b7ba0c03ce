#include "apps/train/best_parameters.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "apps/run_files/safetensors.h"
#include "apps/train/model_parameters.h"
#include "core/base/durable_file.h"

namespace weft::apps {
namespace fs = std::filesystem;

BestParameters::BestParameters(const RunDirectory& directory, const ResumePoint& resumed)
    : path_(directory.best()) {
  if (adopt(path_, resumed.steps_done)) return;
  std::error_code ignored;
  fs::remove(path_, ignored);
  if (!resumed.from) return;
  const fs::path theirs = resumed.from->parent_path().parent_path() / path_.filename();
  if (!adopt(theirs, resumed.steps_done)) return;
  std::error_code failed;
  fs::copy_file(theirs, path_, failed);
  if (failed) step_ = 0;
}

bool BestParameters::adopt(const fs::path& file, std::int64_t steps_done) {
  if (!fs::exists(file)) return false;
  try {
    const auto metadata = SafetensorsFile(file).metadata();
    const std::int64_t step = std::stoll(metadata.at("step"));
    if (step < 1 || step > steps_done) return false;
    loss_ = std::stod(metadata.at("validation_loss"));
    step_ = step;
    return true;
  } catch (const std::exception&) {
    return false;  // damaged file: treated as if there were none
  }
}

bool BestParameters::is_improved_by(std::optional<double> validation_loss) const {
  return validation_loss && std::isfinite(*validation_loss) &&
         (step_ == 0 || *validation_loss < loss_);
}

std::optional<Error> BestParameters::write(std::int64_t step, double validation_loss,
                                           mesh::TrainingEngine& engine) {
  fs::path temporary = path_;
  temporary += ".tmp";
  bool by_disk = true;
  try {
    SafetensorsWriter values(
        temporary, parameter_list(engine.graph()),
        {{"step", std::to_string(step)}, {"validation_loss", fmt::format("{}", validation_loss)}});
    by_disk = false;
    if (engine.supports_copies()) engine.copy_state();
    engine.gather([&](const StateSlice& piece, std::span<const float> part) {
      if (piece.block != StateBlock::kValue) return;
      by_disk = true;
      values.write(piece.parameter, piece.first, part);
      by_disk = false;
    });
    by_disk = true;
    values.flush();
    rename_file(temporary, path_);
  } catch (...) {
    const Error error = current_error();
    std::error_code ignored;
    fs::remove(temporary, ignored);
    if (!by_disk) throw;
    return error;
  }
  step_ = step;
  loss_ = validation_loss;
  return std::nullopt;
}

}  // namespace weft::apps
