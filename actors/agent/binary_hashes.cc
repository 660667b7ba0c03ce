#include "actors/agent/binary_hashes.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file_lock.h"
#include "core/base/sha256.h"

namespace weft::actors {
namespace {

/// Longest wait for another process. Hashing takes tens of milliseconds; a slower process has been
/// suspended.
constexpr auto kHashLockTimeout = std::chrono::seconds(1);
constexpr std::size_t kDigits = 64;

struct stat stat_of(const std::filesystem::path& binary) {
  struct stat about {};
  if (::stat(binary.c_str(), &about) != 0)
    throw_error(ErrorCode::kNotFound, "cannot read {}: {}", binary.string(), ::strerror(errno));
  return about;
}

/// Returns text that changes when the file does.
std::string identity_of(const struct stat& about) {
  return fmt::format("{} {} {} {}.{:09} {}.{:09} ", about.st_dev, about.st_ino, about.st_size,
                     about.st_mtim.tv_sec, about.st_mtim.tv_nsec, about.st_ctim.tv_sec,
                     about.st_ctim.tv_nsec);
}

/// Returns whether the file changed about a second ago or less. Timestamps have steps of some
/// milliseconds, so they may miss a second change.
bool changed_just_now(const struct stat& about) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec - about.st_ctim.tv_sec <= 1;
}

/// Returns nothing if the lock cannot be made or is not free in time.
std::optional<FileLock> lock_of(const std::filesystem::path& path) {
  const auto limit = std::chrono::steady_clock::now() + kHashLockTimeout;
  try {
    return FileLock::acquire(
        path, [&] { return std::chrono::steady_clock::now() > limit; }, 0600);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string read_line(const FileLock& file) {
  char text[512];
  const ssize_t got = ::pread(file.descriptor(), text, sizeof text, 0);
  return std::string(text, got > 0 ? got : 0);
}

void write_line(const FileLock& file, std::string_view text) {
  if (::ftruncate(file.descriptor(), 0) != 0) return;
  // A line that a full disk cuts off is ignored, and the hash is computed again.
  [[maybe_unused]] const auto written = ::pwrite(file.descriptor(), text.data(), text.size(), 0);
}

}  // namespace

std::string binary_sha256(const std::filesystem::path& binary,
                          const std::filesystem::path& folder) {
  const struct stat about = stat_of(binary);
  if (folder.empty() || changed_just_now(about)) return sha256_file(binary);
  std::error_code unknown;
  const std::string name = std::filesystem::canonical(binary, unknown).string();
  if (unknown) return sha256_file(binary);
  const std::optional<FileLock> file =
      lock_of(folder / sha256(std::as_bytes(std::span(name))).substr(0, 16));
  if (!file) return sha256_file(binary);
  const std::string identity = identity_of(about);
  const std::string known = read_line(*file);
  if (known.starts_with(identity) && known.size() == identity.size() + kDigits + 1 &&
      known.back() == '\n')
    return known.substr(identity.size(), kDigits);
  std::string digits = sha256_file(binary);
  write_line(*file, identity + digits + "\n");
  return digits;
}

void check_binary(const std::string& host, const std::string& binary, const std::string& sha256,
                  const std::filesystem::path& folder) {
  if (!std::filesystem::exists(binary))
    throw_error(ErrorCode::kIncompatible,
                "host {} has no file {}: put the app's binary there, the same as the driver's",
                host, binary);
  const std::string found = binary_sha256(binary, folder);
  if (found == sha256) return;
  throw_error(ErrorCode::kIncompatible,
              "the app's binary {} on host {} differs from the driver's (SHA-256 {}... instead of "
              "{}...); copy the driver's binary to this host, or start the driver from this host's "
              "binary",
              binary, host, found.substr(0, 12), sha256.substr(0, 12));
}

}  // namespace weft::actors
