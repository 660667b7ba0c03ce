#include "apps/select_input/internal/preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <system_error>

#include "apps/select_input/hashed_ngrams.h"
#include "apps/selection/neighbours.h"
#include "apps/selection/npy_file.h"
#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLeastWidth = 2;

}  // namespace

Preparation::Preparation(const SelectInput& request, Device& device_to_use,
                         const PrepareProgress& progress, const std::stop_token& stop_token,
                         PreparedInput& prepared)
    : input(request),
      device(device_to_use),
      stop(stop_token),
      result(prepared),
      progress_(progress),
      mark_(clock_.now()) {}

void Preparation::report_progress(std::string_view what, std::uint64_t done,
                                  std::uint64_t of) const {
  if (stop.stop_requested())
    throw_error(ErrorCode::kCancelled, "the preparation of {} was interrupted", input.path);
  if (progress_) progress_({what, done, of});
}

void Preparation::record_duration(const std::string& what) {
  const TimePoint now = clock_.now();
  result.seconds[what] += in_seconds(now - mark_);
  mark_ = now;
}

void Preparation::begin_vectors(std::size_t width) {
  result.width = width;
  vectors_.emplace(result.vectors(), width);
}

void Preparation::append(std::span<float> vectors) {
  for (std::size_t i = 0; i < vectors.size(); i += result.width) {
    const std::span<float> vector = vectors.subspan(i, result.width);
    if (!std::ranges::all_of(vector, [](float value) { return std::isfinite(value); }))
      throw_error(ErrorCode::kInternal,
                  "{}, row {}: its computed vector has a NaN or an infinite number; lower the "
                  "learning rate of the coarse model",
                  input.path, vectors_->rows() + i / result.width);
    if (std::ranges::all_of(vector, [](float value) { return value == 0; }))
      fill_with_signs(vector, input.seed);
  }
  vectors_->append(vectors);
}

void Preparation::append_place(const RowOrigin& place) {
  if (!places_.is_open()) places_.open(result.places(), std::ios::binary | std::ios::trunc);
  places_ << place.json() << '\n';
  ++num_places_;
}

void Preparation::commit_vectors() {
  result.rows = vectors_ ? vectors_->rows() : num_places_;
  if (result.rows == 0)
    throw_error(ErrorCode::kInvalidArgument, "{} has no rows to choose from", input.path);
  if (result.rows > std::numeric_limits<std::uint32_t>::max())
    throw_error(ErrorCode::kInvalidArgument, "{} has {} rows; at most 2^32 - 1 can be chosen from",
                input.path, result.rows);
  if (vectors_) {
    vectors_->commit();
    result.digest = vectors_->digest();
  }
  if (places_.is_open()) places_.close();
  if (!places_)
    throw_error(ErrorCode::kResourceExhausted,
                "cannot write {}; make room there, or give another `scratch`",
                result.places().string());
}

void Preparation::link_vectors(const fs::path& file, std::uint64_t rows, std::size_t width,
                               const std::string& digest) {
  result.rows = rows;
  result.width = width;
  result.digest = digest;
  std::error_code failed;
  fs::create_symlink(fs::absolute(file), result.vectors(), failed);
  if (!failed) return;  // else the file system has no symlinks
  fs::copy_file(file, result.vectors(), fs::copy_options::overwrite_existing, failed);
  if (failed)
    throw_error(ErrorCode::kUnavailable, "cannot copy {} to {}: {}; give another `scratch`",
                file.string(), result.vectors().string(), failed.message());
}

void Preparation::append_utility(std::span<const float> utility) {
  if (!utility_) utility_.emplace(result.utility(), 1);
  utility_->append(utility);
}

void Preparation::append_checked(std::span<const float> utility, std::string_view source) {
  const std::uint64_t first = utility_ ? utility_->rows() : 0;
  for (std::size_t i = 0; i < utility.size(); ++i) {
    if (!(utility[i] >= 0 && utility[i] <= 1))
      throw_error(
          ErrorCode::kInvalidArgument,
          "{}, row {}: the utility is {}; expected 0 to 1: scale all utilities to that range",
          source, first + i, utility[i]);
  }
  append_utility(utility);
}

void Preparation::commit_utility() {
  utility_->commit();
  result.has_uniform_utility = false;
  const std::string both = result.digest + "|" + utility_->digest();
  result.digest = sha256(std::as_bytes(std::span(both)));
}

void Preparation::write_utility(std::span<const float> utility, std::string_view source) {
  if (utility.size() != result.rows)
    throw_error(ErrorCode::kInvalidArgument,
                "{} has {} utilities for the {} rows of {}: give one for each", source,
                utility.size(), result.rows, input.path);
  for (std::size_t first = 0; first < utility.size(); first += kBlockRows)
    append_checked(utility.subspan(first, std::min(kBlockRows, utility.size() - first)), source);
  commit_utility();
}

void Preparation::copy_utility(const fs::path& file) {
  const NpyFile utility(file);
  if (utility.columns() != 1 || utility.rows() != result.rows)
    throw_error(ErrorCode::kInvalidArgument,
                "{} has {} rows of {} for the {} rows of {}: give one number for each",
                file.string(), utility.rows(), utility.columns(), result.rows, input.path);
  std::vector<float> block;
  for (std::uint64_t first = 0; first < result.rows; first += block.size()) {
    block.resize(std::min<std::uint64_t>(kBlockRows, result.rows - first));
    utility.read(first, block);
    append_checked(block, file.string());
    report_progress("read utilities", first + block.size(), result.rows);
  }
  commit_utility();
}

void check_shape(const std::string& source, std::uint64_t rows, std::uint64_t width) {
  if (rows == 0 || width < kLeastWidth)
    throw_error(ErrorCode::kInvalidArgument,
                "{} has {} rows of {} numbers; vectors to choose from are rows of at least {}",
                source, rows, width, kLeastWidth);
  if (rows > std::numeric_limits<std::uint32_t>::max())
    throw_error(ErrorCode::kInvalidArgument, "{} has {} rows; at most 2^32 - 1 can be chosen from",
                source, rows);
}

void require_valid_vectors(std::vector<float> block, std::size_t width, const std::string& source,
                           std::uint64_t first_row) {
  normalise_vectors(block, width, source, first_row);
}

std::string digest_of_files(std::span<const fs::path> files) {
  std::string digest;
  for (const fs::path& file : files) {
    std::error_code failed;
    const auto size = fs::file_size(file, failed);
    const auto time = failed ? fs::file_time_type() : fs::last_write_time(file, failed);
    if (failed)
      throw_error(ErrorCode::kNotFound, "cannot read {}: {}", file.string(), failed.message());
    const std::string line =
        fmt::format("{}{}|{}|{}", digest, file.string(), size, time.time_since_epoch().count());
    digest = sha256(std::as_bytes(std::span(line)));
  }
  return digest;
}

}  // namespace weft::apps
