#include "apps/run_files/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/durable_file.h"
#include "core/base/error.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPerSecond = "_per_second";

/// Converts NaN and infinity, which JSON lacks, to null. number_or_nan() reads null as NaN.
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }
double number_or_nan(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

StepMetrics parse(const Json& json) {
  StepMetrics m;
  m.step = json.at("step");
  m.loss = number_or_nan(json.at("loss"));
  m.grad_norm = number_or_nan(json.at("grad_norm"));
  m.learning_rate = json.at("learning_rate");
  m.seconds = json.at("seconds");
  for (const auto& [key, value] : json.items()) {
    if (!key.ends_with(kPerSecond)) continue;
    m.unit = key.substr(0, key.size() - kPerSecond.size());
    m.units_per_second = number_or_nan(value);
  }
  m.transfer_seconds = json.at("transfer_seconds");
  m.exposed_transfer_seconds = json.at("exposed_transfer_seconds");
  m.resharded_bytes = json.at("resharded_bytes");
  m.update_skipped = json.value("update_skipped", false);
  m.checkpoint_seconds = json.value("checkpoint_seconds", 0.0);
  if (json.contains("validation_loss")) m.validation_loss = number_or_nan(json["validation_loss"]);
  return m;
}

void write_fully(int fd, const std::string& text, const fs::path& path) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", path.string(),
                  std::strerror(errno));
    done += written;
  }
}

void flush_fully(int fd, const fs::path& path) {
  if (::fsync(fd) != 0)
    throw_error(ErrorCode::kUnavailable, "cannot flush {} to the disk: {}", path.string(),
                std::strerror(errno));
}

}  // namespace

std::string to_json_line(const StepMetrics& m) {
  Json json = {{"step", m.step},
               {"loss", finite_or_null(m.loss)},
               {m.unit + std::string(kPerSecond), finite_or_null(m.units_per_second)},
               {"grad_norm", finite_or_null(m.grad_norm)},
               {"learning_rate", m.learning_rate},
               {"seconds", m.seconds},
               {"transfer_seconds", m.transfer_seconds},
               {"exposed_transfer_seconds", m.exposed_transfer_seconds},
               {"resharded_bytes", m.resharded_bytes}};
  if (m.update_skipped) json["update_skipped"] = true;
  if (m.checkpoint_seconds > 0) json["checkpoint_seconds"] = m.checkpoint_seconds;
  if (m.validation_loss) json["validation_loss"] = finite_or_null(*m.validation_loss);
  return json.dump();
}

std::vector<StepMetrics> read_metrics(const fs::path& path) {
  std::vector<StepMetrics> steps;
  std::ifstream in(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  int line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // incomplete after a crash
    ++line;
    try {
      steps.push_back(parse(Json::parse(text.begin() + begin, text.begin() + end)));
    } catch (const nlohmann::json::exception&) {
      throw_error(ErrorCode::kDataLoss,
                  "{}:{}: the line is not valid, so the file is damaged; remove the line to resume "
                  "without the metrics of that step",
                  path.string(), line);
    }
    begin = end + 1;
  }
  return steps;
}

MetricsFile::MetricsFile(fs::path path, std::int64_t steps_done, const fs::path& refused)
    : path_(std::move(path)), steps_(read_metrics(path_)) {
  if (!refused.empty()) {
    for (const StepMetrics& m : read_metrics(refused))
      if (m.step == (steps_.empty() ? 1 : steps_.back().step + 1)) steps_.push_back(m);
    mirror_fd_ = ::open(refused.c_str(), O_WRONLY | O_CLOEXEC);
  }
  rollback(steps_done);
}

MetricsFile::~MetricsFile() {
  close();
  if (mirror_fd_ >= 0) ::close(mirror_fd_);
}

void MetricsFile::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void MetricsFile::rollback(std::int64_t steps_done) {
  std::erase_if(steps_, [&](const StepMetrics& m) { return m.step > steps_done; });
  close();
  write_error_.reset();
  try {
    open();
  } catch (const Error& error) {
    write_error_ = error;
  }
  copied_ = 0;
  mirror_pending();
}

/// Updates the copy of the held-back lines in the `refused` file.
void MetricsFile::mirror_pending() {
  if (mirror_fd_ < 0) return;
  if (pending_lines_.size() < copied_) copied_ = 0;
  const std::string_view more = std::string_view(pending_lines_).substr(copied_);
  const auto end = static_cast<off_t>(copied_);
  if (::ftruncate(mirror_fd_, end) == 0 &&
      ::pwrite(mirror_fd_, more.data(), more.size(), end) == std::ssize(more))
    copied_ = pending_lines_.size();
}

/// Opens the file so that it begins with the lines of steps(). Holds back lines that the disk
/// refuses.
void MetricsFile::open() {
  pending_lines_.clear();
  try {
    rewrite_file();
  } catch (const Error&) {
    // A full disk may lack room for a second file, but the existing one can be truncated.
    truncate_in_place();
    write_pending();
  }
}

/// Writes all lines to a second file first, so that a crash loses none.
void MetricsFile::rewrite_file() {
  fs::path temporary = path_;
  temporary += ".new";
  fd_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0)
    throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", temporary.string(),
                std::strerror(errno));
  std::string text;
  for (const StepMetrics& m : steps_) text += to_json_line(m) + "\n";
  try {
    write_fully(fd_, text, temporary);
    flush_fully(fd_, temporary);
    rename_file(temporary, path_);
    size_ = std::ssize(text);
  } catch (...) {
    close();
    ::unlink(temporary.c_str());  // frees the disk space
    throw;
  }
}

/// Truncates the existing file after its last correct line.
void MetricsFile::truncate_in_place() {
  std::ifstream in(path_, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  std::size_t kept = 0, right = 0;
  for (; kept < steps_.size(); ++kept) {
    const std::string line = to_json_line(steps_[kept]) + "\n";
    if (text.compare(right, line.size(), line) != 0) break;
    right += line.size();
  }
  for (std::size_t i = kept; i < steps_.size(); ++i)
    pending_lines_ += to_json_line(steps_[i]) + "\n";
  size_ = static_cast<std::int64_t>(right);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ >= 0 && ::ftruncate(fd_, size_) == 0) return;
  const int why = errno;
  close();
  throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", path_.string(), std::strerror(why));
}

void MetricsFile::write_pending() {
  if (pending_lines_.empty()) return;
  try {
    write_fully(fd_, pending_lines_, path_);
  } catch (...) {
    // drops a partial line, to which the next one would be appended
    [[maybe_unused]] const int cut = ::ftruncate(fd_, size_);
    throw;
  }
  size_ += std::ssize(pending_lines_);
  pending_lines_.clear();
}

void copy_metrics(const fs::path& from, const fs::path& to) {
  std::ifstream in(from, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  fs::path temporary = to;
  temporary += ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0)
    throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", temporary.string(),
                std::strerror(errno));
  try {
    write_fully(fd, text, temporary);
    flush_fully(fd, temporary);
    rename_file(temporary, to);
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
}

void MetricsFile::append(const StepMetrics& metrics) {
  steps_.push_back(metrics);
  try {
    if (fd_ < 0) {
      open();
    } else {
      pending_lines_ += to_json_line(metrics) + "\n";
      write_pending();
    }
    if (write_error_) mirror_pending();  // clears the copy
    write_error_.reset();
  } catch (const Error& error) {
    write_error_ = error;
    mirror_pending();
    throw;
  }
}

void MetricsFile::flush() {
  if (fd_ < 0) open();
  write_pending();
  if (write_error_) mirror_pending();
  write_error_.reset();
  flush_fully(fd_, path_);
}

}  // namespace weft::apps
