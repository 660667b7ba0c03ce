#include "actors/agent/binary_hashes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::actors {
namespace {

/// What changes when the file does. Throws Error(kNotFound).
std::string identity_of(const std::filesystem::path& binary) {
  struct stat about {};
  if (::stat(binary.c_str(), &about) != 0)
    throw_error(ErrorCode::kNotFound, "there is no file {}", binary.string());
  return fmt::format("{} {} {} {}.{:09} {}.{:09}", about.st_dev, about.st_ino, about.st_size,
                     about.st_mtim.tv_sec, about.st_mtim.tv_nsec, about.st_ctim.tv_sec,
                     about.st_ctim.tv_nsec);
}

/// One line of a file that this process alone has, as long as it lives.
class LockedLine final {
 public:
  explicit LockedLine(const std::filesystem::path& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    if (file_ >= 0) ::flock(file_, LOCK_EX);
  }
  ~LockedLine() {
    if (file_ >= 0) ::close(file_);
  }
  LockedLine(const LockedLine&) = delete;
  LockedLine& operator=(const LockedLine&) = delete;

  std::string read() const {
    char text[512];
    const ssize_t got = file_ < 0 ? 0 : ::pread(file_, text, sizeof text, 0);
    return std::string(text, got > 0 ? got : 0);
  }
  void write(std::string_view text) const {
    if (file_ < 0 || ::ftruncate(file_, 0) != 0) return;
    // What a full disk cuts off is no hash, and is taken again.
    [[maybe_unused]] const auto written = ::pwrite(file_, text.data(), text.size(), 0);
  }

 private:
  const int file_;
};

constexpr std::size_t kDigits = 64;

}  // namespace

std::string BinaryHashes::sha256(const std::filesystem::path& binary) const {
  std::error_code ignored;
  const std::filesystem::path real = std::filesystem::canonical(binary, ignored);
  const std::string name = ignored ? binary.string() : real.string();
  if (folder_.empty()) return sha256_file(binary);
  const LockedLine line(folder_ / weft::sha256(std::as_bytes(std::span(name))).substr(0, 16));
  const std::string identity = identity_of(binary) + " ";
  const std::string known = line.read();
  if (known.starts_with(identity) && known.size() == identity.size() + kDigits + 1 &&
      known.back() == '\n')
    return known.substr(identity.size(), kDigits);
  std::string digits = sha256_file(binary);
  line.write(identity + digits + "\n");
  return digits;
}

}  // namespace weft::actors
